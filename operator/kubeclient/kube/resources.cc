#include "operator/kubeclient/kube/resources.h"

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

ResourceVector ReadResourceVector(scan::Value value, int64_t* pod_count) {
  ResourceVector resources;
  scan::ForEachField(value, [&](std::string_view key, scan::Value amount) {
    if (key != "pods") {
      const bool is_cpu = key == kCpuResource;
      resources.Set(
          key, ReadQuantity(amount, is_cpu ? QuantityUnit::kThousandths : QuantityUnit::kOnes));
    } else if (pod_count != nullptr) {
      *pod_count = ReadQuantity(amount, QuantityUnit::kOnes);
    }
  });
  return resources;
}

}  // namespace lockstep::control::kube
