#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/convert/foreign_object.h"

namespace lockstep::control {

// What the kinds of kubeflow.org have in common. `spec` is the foreign one, `job_spec` ours.

// runPolicy, where it is now and where versions before v1 had it. `restarts_max`: how many restarts
// another field of the job allows, which holds where no backoffLimit says it; `unsaid`: what it
// means there that neither does.
inline constexpr const char* kNoLimit = "no limit";
void ConvertRunPolicy(ForeignObject* spec,
                      std::optional<int64_t> restarts_max,
                      Json* job_spec,
                      const std::string& unsaid = kNoLimit);

// "PS" -> "ps", "Master" -> "chief"; empty: no role that a TrainingJob has.
std::string RoleOf(const std::string& replica_type);

// Says of a role with restartPolicy ExitCode which codes are handled otherwise here.
void NoteExitCodes(const Json& role, ForeignObject* replica);

// {name, replicas, restartPolicy}; `restart_policy` where the manifest says none.
Json RoleHead(const std::string& role, const std::string& restart_policy, ForeignObject* replica);

// The kinds. `spec` is finished by them.
Json ConvertTfJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertPyTorchJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertMpiJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertMpiJobWithJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertTrainJob(ForeignObject* spec, const ConversionOptions& options);

}  // namespace lockstep::control
