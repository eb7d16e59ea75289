#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/contract/topology.h"

namespace lockstep::control {

// Labels by which a pod says whose it is and what it stands for. They are written at birth and
// never changed, so an operator that restarts knows its pods again.
namespace label {
inline constexpr const char* kJob = "lockstep.dev/job";
inline constexpr const char* kJobUid = "lockstep.dev/job-uid";
inline constexpr const char* kRole = "lockstep.dev/role";
inline constexpr const char* kIndex = "lockstep.dev/index";
inline constexpr const char* kRank = "lockstep.dev/rank";  // absent for ps and evaluator
inline constexpr const char* kAttempt = "lockstep.dev/attempt";
inline constexpr const char* kIncarnation = "lockstep.dev/incarnation";
}  // namespace label

using Labels = std::map<std::string, std::string>;

struct PodIdentityLabels {
  std::string job;
  std::string job_uid;
  TaskId task;
  std::optional<int> rank;  // of the pod's first process
  PodNumber number;

  friend bool operator==(const PodIdentityLabels&, const PodIdentityLabels&) = default;
};

Labels EncodePodLabels(const PodIdentityLabels& identity);

// nullopt when a label is missing or malformed: the pod is then not one of ours. Other labels are
// ignored.
std::optional<PodIdentityLabels> ParsePodLabels(const Labels& labels);

}  // namespace lockstep::control
