#pragma once

#include <string>
#include <string_view>

#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control {

// Whether what has a name that the job needs belonged to an earlier job of the same name, which is
// gone: names are unique, and this one is another's now. Such a pod is removed and such a service
// waited for; anything else that is not the job's own is nobody's to touch.
bool IsLeftOver(const kube::Pod& pod, const Metadata& job);
bool IsLeftOver(const kube::Service& service, const Metadata& job);

// "pod mnist-worker-0 of an earlier job of this name (kept by its finalizers example.com/a)".
std::string DescribeLeftOver(const kube::Pod& pod);

// "example.com/a, example.com/b".
std::string JoinFinalizers(const kube::Pod& pod);

// Reason of Scheduled while a gang waits for such pods. A finalizer may keep them for ever: as with
// kReasonPodStuck, the job holds up nobody meanwhile.
inline constexpr std::string_view kReasonNameTaken = "NameTaken";

}  // namespace lockstep::control
