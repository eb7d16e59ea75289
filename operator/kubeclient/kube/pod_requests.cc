#include "operator/kubeclient/kube/pod_requests.h"

namespace lockstep::control::kube {

void PodRequests::AddContainer(const ResourceVector& requests) {
  containers_ = control::Sum(containers_, requests);
}

void PodRequests::AddInitContainer(const ResourceVector& requests, bool is_sidecar) {
  const ResourceVector together = control::Sum(sidecars_, requests);
  if (is_sidecar) {
    sidecars_ = together;
  }
  init_max_ = Larger(init_max_, together);
}

void PodRequests::AddOverhead(const ResourceVector& overhead) {
  overhead_ = control::Sum(overhead_, overhead);
}

void PodRequests::SetPodLevel(const ResourceVector& requests) {
  pod_level_ = requests;
}

ResourceVector PodRequests::Sum() const {
  ResourceVector sum = Larger(control::Sum(containers_, sidecars_), init_max_);
  for (const NamedAmount& amount : pod_level_.All()) {
    sum.Set(amount.name, amount.amount);
  }
  return control::Sum(sum, overhead_);
}

}  // namespace lockstep::control::kube
