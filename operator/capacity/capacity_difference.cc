#include "operator/capacity/capacity_difference.h"

#include <cstddef>
#include <cstdint>

#include "common/base/plural.h"
#include "common/base/quantity.h"
#include "operator/api/fields/json_edit.h"
#include "operator/capacity/capacity_request.h"

namespace lockstep::control {
namespace {

constexpr const char* kWasEdited = "was edited by somebody";
constexpr const char* kIsOther = "was changed: its ";

// Whether two amounts of a resource are the same: the server writes them in its own way.
bool AreSameAmount(const Json& asked, const Json& found) {
  if (!asked.is_string() || !found.is_string()) {
    return false;
  }
  const auto is_same = [&](QuantityUnit unit) {
    const auto one = ParseQuantity(asked.get_ref<const std::string&>(), unit);
    const auto other = ParseQuantity(found.get_ref<const std::string&>(), unit);
    return one.ok() && other.ok() && *one == *other;
  };
  // More bytes than can be counted in thousandths are the largest number of them.
  return is_same(QuantityUnit::kThousandths) && is_same(QuantityUnit::kOnes);
}

std::string Differing(const std::string& path, const Json& asked, const Json* found) {
  return std::string(kIsOther) + path + " is " +
         (found == nullptr ? "missing" : DescribeJson(*found)) + ", expected " +
         DescribeJson(asked);
}

// The first that is not held: every key of an object is, and all elements of a list.
std::string DifferenceIn(const Json& asked, const Json* found, const std::string& path) {
  if (found == nullptr) {
    return asked.empty() ? "" : Differing(path, asked, found);
  }
  if (asked.is_object() && found->is_object()) {
    for (const auto& [key, value] : asked.items()) {
      std::string difference =
          DifferenceIn(value, FindField(*found, key.c_str()), path + "." + key);
      if (!difference.empty()) {
        return difference;
      }
    }
    return "";
  }
  if (asked.is_array() && found->is_array()) {
    if (asked.size() != found->size()) {
      return std::string(kIsOther) + path + " has " +
             Plural(static_cast<int64_t>(found->size()), "element") + ", expected " +
             std::to_string(asked.size());
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      std::string difference =
          DifferenceIn(asked[i], &(*found)[i], path + "[" + std::to_string(i) + "]");
      if (!difference.empty()) {
        return difference;
      }
    }
    return "";
  }
  return asked == *found || AreSameAmount(asked, *found) ? "" : Differing(path, asked, found);
}

// A server that does not count generations tells nothing by them.
bool IsEdited(const CapacityObject& object) {
  return object.generation > 1;
}

}  // namespace

std::string DifferenceOfRequest(const CapacityObject& object, const TrainingJob& job) {
  std::string difference =
      DifferenceIn(CapacityRequestManifest(job)["spec"], &object.content, "spec");
  return difference.empty() && IsEdited(object) ? kWasEdited : difference;
}

std::string DifferenceOfTemplate(const CapacityObject& object,
                                 const TrainingJob& job,
                                 const RoleSpec& role) {
  const Json made = CapacityTemplateManifest(job, role, {})["template"]["spec"];
  Json asked = {{"spec", {{"containers", Json::array({Json::object()})}}}};
  asked["spec"]["containers"][0]["resources"] = made["containers"][0]["resources"];
  if (const Json* const selector = FindField(made, "nodeSelector")) {
    asked["spec"]["nodeSelector"] = *selector;
  }
  std::string difference = DifferenceIn(asked, &object.content, "template");
  return difference.empty() && IsEdited(object) ? kWasEdited : difference;
}

}  // namespace lockstep::control
