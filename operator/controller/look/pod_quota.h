#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {

// What ResourceQuotas of a namespace leave for the pods of a gang, which are to be created together
// or not at all. The API server itself looks at one pod after the other.

// Amounts in thousandths, by the names that quotas have for them: "pods", "requests.cpu".
using QuotaAmounts = std::map<std::string, int64_t>;

struct ResourceQuota {
  std::string name;
  QuotaAmounts hard;
  QuotaAmounts used;
  bool has_scopes = false;  // it counts some pods only
};

// Reads a ResourceQuota as the API server stores it. Amounts that cannot be read are left out.
ResourceQuota ReadResourceQuota(const Json& object);

// What one pod counts in quotas.
// Source: Kubernetes, pkg/quota/v1/evaluator/core/pods.go, but for the pod's overhead in limits.
QuotaAmounts QuotaUseOf(const Json& pod);
// The same, where only its requests are known.
QuotaAmounts QuotaUseOf(const ResourceVector& requests, int64_t pod_count);

void AddTimes(const QuotaAmounts& amounts, int64_t count, QuotaAmounts* sum);

// The first quota that cannot hold `asked` beside what it holds without `freed`, in words; empty:
// all can. A quota that has scopes is not judged. Nor is a limit where pods free some: what they
// free of limits is not known.
std::string WhyOverQuota(const std::vector<ResourceQuota>& quotas,
                         const QuotaAmounts& asked,
                         const QuotaAmounts& freed);

}  // namespace lockstep::control
