#include "operator/api/job/pod_resources.h"

#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "common/base/quantity.h"
#include "common/base/saturating.h"
#include "common/contract/text/problems.h"
#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"
#include "operator/api/fields/pod_fields.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

bool IsHugePages(std::string_view name) {
  return name.starts_with("hugepages-");
}

// Names of Kubernetes' own resources; others hold a '/' (nvidia.com/gpu) or begin with hugepages-.
bool IsResourceName(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
         name.find('/') != std::string_view::npos || IsHugePages(name);
}

std::string SuggestResource(std::string_view name) {
  if (name == "gpu" || name == "gpus") {
    return "; use the role's field gpus instead";
  }
  const std::string_view nearest = NearestWord(name, {"cpu", "memory", "ephemeral-storage"});
  return nearest.empty() ? ", expected cpu, memory, ephemeral-storage or a name with a domain, "
                           "such as nvidia.com/gpu"
                         : "; did you mean \"" + std::string(nearest) + "\"?";
}

// "2G" for "2GB": the suggestion for a suffix that ends in a stray letter; empty if none helps.
std::string SuggestQuantity(std::string_view text) {
  while (!text.empty() && (text.back() == 'b' || text.back() == 'B' || text.back() == ' ')) {
    text.remove_suffix(1);
    if (ParseQuantity(text, QuantityUnit::kOnes).ok()) {
      return "; did you mean \"" + std::string(text) + "\"?";
    }
  }
  return "";
}

// "0.5", "500m": a quantity that is rounded to a whole number, where it is one.
bool IsFraction(const std::string& text) {
  const Result<int64_t> ones = ParseQuantity(text, QuantityUnit::kOnes);
  const Result<int64_t> thousandths = ParseQuantity(text, QuantityUnit::kThousandths);
  return ones.ok() && thousandths.ok() && *thousandths != MultiplySaturated(*ones, 1000);
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

// One quantity, a string or a number; nullopt (recorded) if it is none.
std::optional<int64_t> ReadQuantity(const Json& value,
                                    const std::string& path,
                                    QuantityUnit unit,
                                    Errors* errors) {
  const std::string text = TextOf(value);
  const Result<int64_t> quantity = ReadQuantityText(text, unit);
  const bool is_whole = value.is_number() && value.get<double>() == std::trunc(value.get<double>());
  if (quantity.ok() && (value.is_string() || is_whole)) {
    return *quantity;
  }
  if (quantity.ok() && value.is_number()) {  // the API server takes whole numbers and text only
    AddError(errors, path, text + " found, expected it in quotes: \"" + text + "\"");
    return std::nullopt;
  }
  const std::string expected =
      quantity.ok() ? "a quantity such as 2, 500m, 1.5 or 2Gi" : quantity.error().message();
  AddError(
      errors, path, DescribeJson(value) + " found, expected " + expected + SuggestQuantity(text));
  return std::nullopt;
}

using Amounts = std::map<std::string, int64_t>;  // also those of zero

Amounts ReadAmountMap(ObjectReader& resources, std::string_view key, Errors* errors) {
  Amounts amounts;
  const Json* value = resources.Find(key);
  if (value == nullptr) {
    return amounts;
  }
  if (!value->is_object()) {
    resources.Fail(key, DescribeJson(*value) + " found, expected an object of quantities");
    return amounts;
  }
  if (value->size() > kResourceNamesMax) {
    resources.Fail(key, TooMany(value->size(), "entries", kResourceNamesMax));
    return amounts;
  }
  for (const auto& [name, quantity] : value->items()) {
    if (quantity.is_null()) {
      continue;  // the API server drops it
    }
    const std::string path = resources.PathOf(key) + "." + name;
    if (!IsResourceName(name)) {
      AddError(errors, path, "unknown resource" + SuggestResource(name));
      continue;
    }
    if (IsDevice(name) && IsFraction(TextOf(quantity))) {
      AddError(
          errors,
          path,
          DescribeJson(quantity) + " found, expected a whole number: a device cannot be divided");
      continue;
    }
    const QuantityUnit unit = name == "cpu" ? QuantityUnit::kThousandths : QuantityUnit::kOnes;
    if (const std::optional<int64_t> amount = ReadQuantity(quantity, path, unit, errors)) {
      amounts[name] = *amount;
    }
  }
  return amounts;
}

ResourceVector ToVector(const Amounts& amounts) {
  ResourceVector resources;
  for (const auto& [name, amount] : amounts) {
    resources.Set(name, amount);
  }
  return resources;
}

// `value` holds both, as they are written.
void CheckWithinLimits(const Json& value,
                       const Amounts& requests,
                       const Amounts& limits,
                       const std::string& path,
                       Errors* errors) {
  for (const auto& [name, limit] : limits) {
    const auto request = requests.find(name);
    if (request != requests.end() && request->second > limit) {
      AddError(errors,
               path + ".requests." + name,
               "asks for more than limits." + name + ", expected at most " +
                   DescribeJson(value["limits"][name]));
    }
  }
}

// Source: k8s.io/component-helpers/resource, IsSupportedPodLevelResource.
void CheckPodLevelNames(const Amounts& amounts, const std::string& prefix, Errors* errors) {
  for (const auto& [name, amount] : amounts) {
    if (name != kCpuResource && name != kMemoryResource && !IsHugePages(name)) {
      AddError(errors,
               prefix + name,
               "found, but a pod as a whole can request only cpu, memory and hugepages; put this "
               "resource into the container's resources");
    }
  }
}

}  // namespace

std::optional<int64_t> ReadAmount(ObjectReader& reader,
                                  std::string_view key,
                                  int64_t least,
                                  Errors* errors) {
  const Json* const value = reader.Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<int64_t> amount =
      ReadQuantity(*value, reader.PathOf(key), QuantityUnit::kOnes, errors);
  if (amount.has_value() && *amount < least) {
    reader.Fail(key, DescribeJson(*value) + " found, expected at least " + std::to_string(least));
    return std::nullopt;
  }
  return amount;
}

ResourceVector ReadAmounts(ObjectReader& reader, std::string_view key, Errors* errors) {
  return ToVector(ReadAmountMap(reader, key, errors));
}

ContainerResources ReadPodLevelResources(const Json& value,
                                         const std::string& path,
                                         const ResourceVector& asked,
                                         Errors* errors) {
  ObjectReader reader(value, path, errors);
  Amounts requests = ReadAmountMap(reader, "requests", errors);
  const Amounts limits = ReadAmountMap(reader, "limits", errors);
  CheckPodLevelNames(requests, path + ".requests.", errors);
  CheckPodLevelNames(limits, path + ".limits.", errors);
  CheckWithinLimits(value, requests, limits, path, errors);
  for (const auto& [name, limit] : limits) {
    if (IsHugePages(name) || asked.AmountOf(name) == 0) {
      requests.emplace(name, limit);
    }
  }
  reader.Finish();
  return {ToVector(requests), ToVector(limits), false};
}

ContainerResources ReadResources(const Json& value, const std::string& path, Errors* errors) {
  ObjectReader reader(value, path, errors);
  Amounts requests = ReadAmountMap(reader, "requests", errors);
  const Amounts limits = ReadAmountMap(reader, "limits", errors);
  PassResourceFields(reader);
  CheckWithinLimits(value, requests, limits, path, errors);
  requests.insert(limits.begin(), limits.end());  // as Kubernetes defaults
  const std::string gpu(kGpuResource);
  if (requests.contains(gpu) && (!limits.contains(gpu) || requests[gpu] < limits.at(gpu))) {
    AddError(errors,
             path + ".requests." + gpu,
             "differs from limits." + gpu + ", expected the same number: GPUs are not shared");
  }
  reader.Finish();
  return {ToVector(requests), ToVector(limits), requests.contains(gpu)};
}

}  // namespace lockstep::control
