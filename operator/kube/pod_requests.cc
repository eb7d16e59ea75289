#include "operator/kube/pod_requests.h"

#include <algorithm>
#include <limits>

namespace lockstep::control::kube {
namespace {

// What others ask for is theirs to choose: a sum that does not fit stays at the largest number.
int64_t AddSaturated(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

ResourceList Add(const ResourceList& a, const ResourceList& b) {
  return {AddSaturated(a.cpu_milli, b.cpu_milli),
          AddSaturated(a.memory_bytes, b.memory_bytes),
          AddSaturated(a.gpu_count, b.gpu_count)};
}

ResourceList Max(const ResourceList& a, const ResourceList& b) {
  return {std::max(a.cpu_milli, b.cpu_milli),
          std::max(a.memory_bytes, b.memory_bytes),
          std::max(a.gpu_count, b.gpu_count)};
}

}  // namespace

void PodRequests::AddContainer(const ResourceList& requests) {
  containers_ = Add(containers_, requests);
}

void PodRequests::AddInitContainer(const ResourceList& requests, bool is_sidecar) {
  const ResourceList together = Add(sidecars_, requests);
  if (is_sidecar) {
    sidecars_ = together;
  }
  init_max_ = Max(init_max_, together);
}

void PodRequests::AddOverhead(const ResourceList& overhead) {
  overhead_ = Add(overhead_, overhead);
}

void PodRequests::SetPodLevel(const ResourceList& requests) {
  pod_level_ = requests;
}

ResourceList PodRequests::Sum() const {
  ResourceList sum = Max(Add(containers_, sidecars_), init_max_);
  if (pod_level_.cpu_milli > 0) {
    sum.cpu_milli = pod_level_.cpu_milli;
  }
  if (pod_level_.memory_bytes > 0) {
    sum.memory_bytes = pod_level_.memory_bytes;
  }
  return Add(sum, overhead_);
}

}  // namespace lockstep::control::kube
