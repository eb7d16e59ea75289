#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// How long a pod may stay in a state that often mends itself, since it was first seen in it.
// Choices: the scheduler of a busy cluster has caught up with what has just ended; a kubelet has
// tried an image three times; a cluster without a working scheduler is found out; a node that
// restarts is back.
inline constexpr std::chrono::seconds kUnschedulablePatience{10};
inline constexpr std::chrono::seconds kImagePatience{20};
inline constexpr std::chrono::seconds kUnboundPatience{60};
inline constexpr std::chrono::seconds kNodePatience{10};

// Progress extends the time to start up to so many times scheduling.startTimeoutSeconds. Choice: an
// hour by default, in which an init container fetches a data set.
inline constexpr int kStartExtensionMax = 6;

// The moment by which the pod of a placement must run: replacementTimeout for the successor of a
// lost rank; for all others startTimeout after the last progress of the pod, within
// kStartExtensionMax.
WallTime StartDeadline(const TrainingJob& job,
                       const PodPlacement& placement,
                       const Member& member,
                       WallTime now);

// Whether `member` still has to come to run.
bool IsStarting(const Member& member);

// Writes down since when something keeps each member's pod from starting: patience counts from
// there, not from the placement.
void NoteTrouble(const GangView& view, DecisionBuilder* builder);

// Says in the condition Scheduled what that is while a gang that never ran is waited for: its
// patience is not yet over, and nobody would know what for.
void TellOfTrouble(const GangView& view, DecisionBuilder* builder);

// The reasons of problems that no other node would cure: the server refuses the pod, or there is no
// PodGroup for it.
inline constexpr std::string_view kPodNotCreated = "PodNotCreated";
inline constexpr std::string_view kPodGroupNotMade = "PodGroupNotMade";

// The reason where the gang's queue may not hold what its pods ask for.
inline constexpr std::string_view kQuotaExceeded = "QuotaExceeded";

// The reasons where no scheduler binds it: one has looked, none has.
inline constexpr std::string_view kPodUnschedulable = "PodUnschedulable";
inline constexpr std::string_view kPodNotBound = "PodNotBound";

// The reasons of all problems for which gangs are rolled back.
inline constexpr std::array<std::string_view, 11> kRollbackReasons = {kPodNotCreated,
                                                                      kPodGroupNotMade,
                                                                      "ContainerNotCreated",
                                                                      "ImagePullFailed",
                                                                      "NoRoom",
                                                                      "NodeNotReady",
                                                                      kPodNotBound,
                                                                      "PodRefused",
                                                                      kPodUnschedulable,
                                                                      kQuotaExceeded,
                                                                      "StartTimeout"};

// Why a pod that was decided does not come to run.
struct StartProblem {
  TaskId task;
  std::string reason;     // one CamelCase word
  std::string sentence;   // "pod mnist-worker-3 (rank 3) was refused by node-b: OutOfcpu"
  bool is_final = false;  // no later try would end better: something in the job is wrong
};

// What keeps members from running that is more than a moment's: the server or the kubelet refuses
// the pod, its image cannot be had, it cannot be bound, its node is gone, its time is over. In task
// order; none for pods that are no ranks once the gang has run, which are replaced one by one.
std::vector<StartProblem> FindStartProblems(const DecisionBuilder& builder, const GangView& view);

}  // namespace lockstep::control
