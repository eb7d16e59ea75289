#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/contract/environment/environment.h"

namespace lockstep {

// What a supervisor tells each program that it starts, beside the pod's variables.
namespace env {
inline constexpr const char* kLocalRank = "LOCKSTEP_LOCAL_RANK";
inline constexpr const char* kProcessStart = "LOCKSTEP_PROCESS_START";
inline constexpr const char* kChannelFd = "LOCKSTEP_CHANNEL_FD";
inline constexpr const char* kTfConfigUrl = "LOCKSTEP_TF_CONFIG_URL";
}  // namespace env

// A program's place below the supervisor of its pod.
struct SupervisedPlace {
  int local_rank = 0;
  int start = 0;        // how many processes of this pod stood for the rank before
  int channel_fd = -1;  // an open socket to the supervisor

  friend bool operator==(const SupervisedPlace&, const SupervisedPlace&) = default;
};

EnvironmentMap RenderSupervisedPlace(const SupervisedPlace& place);

// Empty where no supervisor has started this program. Errors: kInvalidArgument (names the variable,
// its value and what was expected).
Result<std::optional<SupervisedPlace>> ParseSupervisedPlace(const EnvironmentMap& variables);

// Incarnations count pods to the outside. Between ranks whose processes have successors in their
// pods they count processes too: pod 1's second process is 1001.
inline constexpr int kStartsPerPodMax = 1000;

// Of the `start`-th process, from 0, that stands for a rank in a pod. Precondition (checked):
// 0 <= start < kStartsPerPodMax.
Incarnation IncarnationOfProcess(Incarnation pod, int start);

Incarnation IncarnationOfPod(Incarnation process);

}  // namespace lockstep
