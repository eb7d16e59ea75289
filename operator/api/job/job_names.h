#pragma once

#include "common/json/enum_names.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// The words of a TrainingJob document, for its decoder and encoder.

inline constexpr EnumNames<Role, 4> kRoleNames = {{
    {Role::kChief, "chief"},
    {Role::kWorker, "worker"},
    {Role::kPs, "ps"},
    {Role::kEvaluator, "evaluator"},
}};

inline constexpr EnumNames<Strategy, 7> kStrategyNames = {{
    {Strategy::kMirrored, "Mirrored"},
    {Strategy::kMultiWorkerMirrored, "MultiWorkerMirrored"},
    {Strategy::kCentralStorage, "CentralStorage"},
    {Strategy::kParameterServer, "ParameterServer"},
    {Strategy::kIndependent, "Independent"},
    {Strategy::kHorovod, "Horovod"},
    {Strategy::kNone, "None"},
}};

inline constexpr EnumNames<RestartPolicy, 4> kRestartPolicyNames = {{
    {RestartPolicy::kNever, "Never"},
    {RestartPolicy::kOnFailure, "OnFailure"},
    {RestartPolicy::kAlways, "Always"},
    {RestartPolicy::kExitCode, "ExitCode"},
}};

inline constexpr EnumNames<CleanPodPolicy, 3> kCleanPodPolicyNames = {{
    {CleanPodPolicy::kAll, "All"},
    {CleanPodPolicy::kRunning, "Running"},
    {CleanPodPolicy::kNone, "None"},
}};

inline constexpr EnumNames<SuccessPolicy, 2> kSuccessPolicyNames = {{
    {SuccessPolicy::kChiefOrWorker0, "ChiefOrWorker0"},
    {SuccessPolicy::kAllWorkers, "AllWorkers"},
}};

inline constexpr EnumNames<PodBinding, 3> kPodBindingNames = {{
    {PodBinding::kAffinity, "Affinity"},
    {PodBinding::kDirect, "Direct"},
    {PodBinding::kNative, "Native"},
}};

inline constexpr EnumNames<ConditionType, 12> kConditionTypeNames = {{
    {ConditionType::kCreated, "Created"},
    {ConditionType::kScheduled, "Scheduled"},
    {ConditionType::kRunning, "Running"},
    {ConditionType::kRestarting, "Restarting"},
    {ConditionType::kSuspended, "Suspended"},
    {ConditionType::kSucceeded, "Succeeded"},
    {ConditionType::kFailed, "Failed"},
    {ConditionType::kRuntimeHeard, "RuntimeHeard"},
    {ConditionType::kStalled, "Stalled"},
    {ConditionType::kGpuAssignment, "GPUAssignment"},
    {ConditionType::kFullyPlanned, "FullyPlanned"},
    {ConditionType::kResized, "Resized"},
}};

}  // namespace lockstep::control
