#include "operator/reconcile/gang/left_over.h"

namespace lockstep::control {

bool IsLeftOver(const kube::Pod& pod, const Metadata& job) {
  return pod.owner_job == job.name && pod.owner_uid != job.uid;
}

bool IsLeftOver(const kube::Service& service, const Metadata& job) {
  return service.owner_job == job.name && service.owner_uid != job.uid;
}

std::string DescribeLeftOver(const kube::Pod& pod) {
  std::string text = "pod " + pod.name + " of an earlier job of this name";
  if (pod.is_deleting && !pod.finalizers.empty()) {
    text += " (kept by its finalizers " + JoinFinalizers(pod) + ")";
  }
  return text;
}

std::string JoinFinalizers(const kube::Pod& pod) {
  std::string text;
  for (const std::string& finalizer : pod.finalizers) {
    text += (text.empty() ? "" : ", ") + finalizer;
  }
  return text;
}

}  // namespace lockstep::control
