#include "operator/controller/look/pod_quota.h"

#include <algorithm>

#include "common/base/quantity.h"
#include "common/base/saturating.h"
#include "operator/api/fields/json_edit.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kRequestsPrefix = "requests.";
constexpr std::string_view kLimitsPrefix = "limits.";

int64_t AmountOf(const QuotaAmounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

QuotaAmounts ReadAmountsOf(const Json& object) {
  QuotaAmounts amounts;
  for (const auto& [name, value] : object.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : DumpJson(value);
    if (const auto amount = ParseQuantity(text, QuantityUnit::kThousandths); amount.ok()) {
      amounts[name] = *amount;
    }
  }
  return amounts;
}

std::string TextOf(std::string_view name, int64_t thousandths) {
  for (const std::string_view prefix : {kRequestsPrefix, kLimitsPrefix}) {
    name.remove_prefix(name.starts_with(prefix) ? prefix.size() : 0);
  }
  return QuantityText({std::string(name), name == kCpuResource ? thousandths : thousandths / 1000});
}

void Raise(const QuotaAmounts& amounts, QuotaAmounts* most) {
  for (const auto& [name, amount] : amounts) {
    int64_t& known = (*most)[name];
    known = std::max(known, amount);
  }
}

// Requests that are not written are the limits.
QuotaAmounts AmountsOfContainer(const Json& container, std::string_view kind) {
  const Json& resources = ObjectOr(container, "resources");
  QuotaAmounts amounts = ReadAmountsOf(ObjectOr(resources, "limits"));
  if (kind == kRequestsPrefix) {
    for (const auto& [name, amount] : ReadAmountsOf(ObjectOr(resources, "requests"))) {
      amounts[name] = amount;
    }
  }
  return amounts;
}

const Json& ListIn(const Json& spec, const char* key) {
  static const Json kNone = Json::array();
  const Json* const list = FindField(spec, key);
  return list != nullptr && list->is_array() ? *list : kNone;
}

// As kube::PodRequests adds up.
QuotaAmounts AmountsOfPod(const Json& spec, std::string_view kind) {
  QuotaAmounts sidecars;
  QuotaAmounts most;
  for (const Json& container : ListIn(spec, "initContainers")) {
    const Json* const policy = FindField(container, "restartPolicy");
    QuotaAmounts beside = sidecars;
    AddTimes(AmountsOfContainer(container, kind), 1, &beside);
    if (policy != nullptr && *policy == "Always") {
      sidecars = beside;
    }
    Raise(beside, &most);
  }
  QuotaAmounts together = sidecars;
  for (const Json& container : ListIn(spec, "containers")) {
    AddTimes(AmountsOfContainer(container, kind), 1, &together);
  }
  Raise(together, &most);
  for (const auto& [name, amount] : AmountsOfContainer(spec, kind)) {
    most[name] = amount;  // of the pod as a whole: instead of what its containers say
  }
  if (kind == kRequestsPrefix) {
    AddTimes(ReadAmountsOf(ObjectOr(spec, "overhead")), 1, &most);
  }
  return most;
}

void Name(const QuotaAmounts& amounts, std::string_view prefix, QuotaAmounts* named) {
  for (const auto& [name, amount] : amounts) {
    (*named)[std::string(prefix) + name] = amount;
    if (prefix == kRequestsPrefix) {
      (*named)[name] = amount;
    }
  }
}

void SetCount(int64_t pod_count, QuotaAmounts* amounts) {
  (*amounts)["pods"] = MultiplySaturated(1000, pod_count);
  (*amounts)["count/pods"] = MultiplySaturated(1000, pod_count);
}

}  // namespace

ResourceQuota ReadResourceQuota(const Json& object) {
  ResourceQuota quota;
  std::vector<Error> ignored;
  const Json& metadata = ObjectOr(object, "metadata");
  quota.name = ObjectReader(metadata, "", &ignored).String("name").value_or("");
  const Json& spec = ObjectOr(object, "spec");
  quota.hard = ReadAmountsOf(ObjectOr(spec, "hard"));
  quota.used = ReadAmountsOf(ObjectOr(ObjectOr(object, "status"), "used"));
  quota.has_scopes = !ListIn(spec, "scopes").empty() || FindField(spec, "scopeSelector") != nullptr;
  return quota;
}

QuotaAmounts QuotaUseOf(const Json& pod) {
  const Json& spec = ObjectOr(pod, "spec");
  QuotaAmounts use;
  Name(AmountsOfPod(spec, kRequestsPrefix), kRequestsPrefix, &use);
  Name(AmountsOfPod(spec, kLimitsPrefix), kLimitsPrefix, &use);
  SetCount(1, &use);
  return use;
}

QuotaAmounts QuotaUseOf(const ResourceVector& requests, int64_t pod_count) {
  QuotaAmounts amounts;
  for (const NamedAmount& one : requests.All()) {
    amounts[one.name] = one.name == kCpuResource ? one.amount : MultiplySaturated(one.amount, 1000);
  }
  QuotaAmounts use;
  Name(amounts, kRequestsPrefix, &use);
  SetCount(pod_count, &use);
  return use;
}

void AddTimes(const QuotaAmounts& amounts, int64_t count, QuotaAmounts* sum) {
  for (const auto& [name, amount] : amounts) {
    int64_t& known = (*sum)[name];
    known = AddSaturated(known, MultiplySaturated(amount, count));
  }
}

std::string WhyOverQuota(const std::vector<ResourceQuota>& quotas,
                         const QuotaAmounts& asked,
                         const QuotaAmounts& freed) {
  for (const ResourceQuota& quota : quotas) {
    if (quota.has_scopes) {
      continue;
    }
    for (const auto& [name, hard] : quota.hard) {
      const int64_t needed = AmountOf(asked, name);
      if (needed == 0 || (name.starts_with(kLimitsPrefix) && !freed.empty())) {
        continue;
      }
      const int64_t used = std::max<int64_t>(0, AmountOf(quota.used, name) - AmountOf(freed, name));
      if (AddSaturated(used, needed) > hard) {
        return "the job's pods request " + name + " " + TextOf(name, needed) +
               ", but ResourceQuota " + quota.name + " of the namespace allows " +
               TextOf(name, hard) +
               (used == 0 ? "" : ", of which other pods use " + TextOf(name, used));
      }
    }
  }
  return "";
}

}  // namespace lockstep::control
