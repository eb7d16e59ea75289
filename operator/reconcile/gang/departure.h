#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control {

// A pod's *departure*: it goes because somebody asked it to, not because its work is done or
// broken.

// Whether somebody asked the pod to go before it ended, as far as can be seen: its deletion was
// asked for, or Kubernetes evicts, preempts or drains it.
bool WasAskedToGo(const kube::Pod& pod);

// Whether the pod's work is done: it ended with success, and was not asked to go before, by
// anybody; or it was, and its last words say that it had finished. A program that exits 0 on
// SIGTERM has only obeyed.
bool HasDoneItsWork(const kube::Pod& pod);

// Whether the pod's process has said so, in its last words.
bool SaysItIsDone(const kube::Pod& pod);

// Whether the pod ended since it was told to from outside, as its last words say: perhaps by
// somebody that the API server knows nothing of.
bool SaysItObeyed(const kube::Pod& pod);

// Whether the pod exited 0 in the middle of a built-in training: it has not said that it was done,
// and `last`, its newest report, is of an earlier step than the last. A command reports no steps.
bool HasEndedEarly(const kube::Pod& pod, const StatusDocument& last);

// The same by what the status remembers, where nobody has a report any more: whoever leads now was
// told of an earlier step, if of any.
bool HasEndedEarly(const kube::Pod& pod, const JobProgress& last);

// Whether the pod failed by its own verdict although it was asked to go: its last words say that
// another try would end the same way.
bool HasFailedForGood(const kube::Pod& pod);

// Reason of Scheduled while a gang waits for a pod of before that does not end. Such a job holds up
// nobody: its place in the queue is given up as long as it has this reason.
inline constexpr std::string_view kReasonPodStuck = "PodStuck";

// A pod that was asked to go and has not ended so long after its grace is stuck: its node does not
// end it. Choice: kubelets need some seconds more than the grace, clocks differ by a few.
inline constexpr std::chrono::seconds kOverdueAfter{30};

// When the pod is stuck unless it ends before; null while nobody asked it to go, or where nobody
// says how long it has.
std::optional<WallTime> OverdueAt(const kube::Pod& pod);

// Whether the pod is stuck at `now`.
bool IsOverdue(const kube::Pod& pod, WallTime now);

}  // namespace lockstep::control
