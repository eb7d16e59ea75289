#pragma once

#include <string>

#include "common/base/time.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/capacity/sight/kueue_sight.h"

namespace lockstep::control {

// Kueue's Workload of a job, and what is written of it. Its API is kueue.x-k8s.io/v1beta2.

// The annotation by which a Workload says what it was made of.
inline constexpr const char* kWorkloadRevision = "lockstep.dev/workload-revision";

// Which label of Kueue's the job has that nothing here heeds; empty: none.
std::string UnheededKueueLabel(const Metadata& job);

// "trainingjob-{job}-{first 8 characters of the uid}": a later job of the same name gets another.
std::string WorkloadName(const Metadata& job);

// The Workload: one pod set for each role, that asks for what its template does. Nothing of the
// template is in it but what decides where a pod may stand.
// `priority`: of the job's PriorityClass.
Json WorkloadManifest(const TrainingJob& job, int64_t priority);

// Equal where both ask Kueue for the same; the value of their priority class is that of when they
// asked. 16 hexadecimal digits.
std::string WorkloadRevision(const TrainingJob& job);

// A condition of a Workload.
struct WorkloadCondition {
  const char* type = "";
  bool is_true = true;
  std::string reason;   // one CamelCase word
  std::string message;  // for people
};

// Whether the Workload has that condition, and it is true.
bool IsWorkload(const WorkloadSight& workload, std::string_view type);

// Its message, true or not; empty: it was never set.
std::string WorkloadMessage(const WorkloadSight& workload, std::string_view type);

// Its reason.
std::string WorkloadReason(const WorkloadSight& workload, std::string_view type);

// A merge patch of the Workload's status that sets these conditions, if it is as it was seen.
// `gives_up_quota`: what was admitted is nobody's any more.
Json WorkloadPatch(const WorkloadSight& workload,
                   const std::vector<WorkloadCondition>& changes,
                   bool gives_up_quota,
                   WallTime now);

}  // namespace lockstep::control
