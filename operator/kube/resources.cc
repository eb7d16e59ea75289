#include "operator/kube/resources.h"

#include <string>

#include "common/base/quantity.h"

namespace lockstep::control::kube {
namespace {

int64_t ReadQuantity(scan::Value value, QuantityUnit unit) {
  const Result<int64_t> quantity = ParseQuantity(scan::Text(value), unit);
  if (!quantity.ok()) {
    throw scan::Problem{"", "is not " + quantity.error().message()};
  }
  return *quantity;
}

}  // namespace

ResourceList ReadResourceList(scan::Value value, int64_t* pod_count) {
  ResourceList list;
  scan::ForEachField(value, [&](std::string_view key, scan::Value amount) {
    if (key == "cpu") {
      list.cpu_milli = ReadQuantity(amount, QuantityUnit::kThousandths);
    } else if (key == "memory") {
      list.memory_bytes = ReadQuantity(amount, QuantityUnit::kOnes);
    } else if (key == "nvidia.com/gpu") {
      list.gpu_count = ReadQuantity(amount, QuantityUnit::kOnes);
    } else if (key == "pods" && pod_count != nullptr) {
      *pod_count = ReadQuantity(amount, QuantityUnit::kOnes);
    }
  });
  return list;
}

}  // namespace lockstep::control::kube
