#include "tests/sim/pod_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/saturating.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

// What users write may be any number: theirs are cut, so that sums of some still are numbers.
constexpr int64_t kThousandthsMax = std::numeric_limits<int64_t>::max() / 1'000'000;

// Null when absent.
const Json* Field(const Json& object, std::string_view name) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

Amounts ReadAmounts(const Json* quantities) {
  Amounts amounts;
  if (quantities != nullptr) {
    for (const auto& [name, quantity] : quantities->items()) {
      amounts[name] =
          ReadThousandths(quantity.is_string() ? quantity.get<std::string>() : DumpJson(quantity));
    }
  }
  return amounts;
}

Amounts RequestsOfContainer(const Json& container) {
  const Json* const resources = Field(container, "resources");
  if (resources == nullptr) {
    return {};
  }
  Amounts amounts = ReadAmounts(Field(*resources, "limits"));
  for (const auto& [name, amount] : ReadAmounts(Field(*resources, "requests"))) {
    amounts[name] = amount;
  }
  return amounts;
}

void RaiseTo(Amounts* amounts, const Amounts& others) {
  for (const auto& [name, amount] : others) {
    (*amounts)[name] = std::max((*amounts)[name], amount);
  }
}

}  // namespace

int64_t ReadThousandths(std::string_view text) {
  int64_t value = 0;
  int64_t scale = 1000;
  bool is_fraction = false;
  std::size_t at = 0;
  for (; at < text.size() && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); ++at) {
    if (text[at] == '.') {
      is_fraction = true;
    } else {
      value = std::min(value, kThousandthsMax / 10 - 1) * 10 + (text[at] - '0');
      scale /= is_fraction ? 10 : 1;
    }
  }
  static const std::map<std::string_view, int64_t> kUnits = {{"", 1},
                                                             {"k", 1'000},
                                                             {"M", 1'000'000},
                                                             {"G", 1'000'000'000},
                                                             {"Ki", int64_t{1} << 10},
                                                             {"Mi", int64_t{1} << 20},
                                                             {"Gi", int64_t{1} << 30}};
  const std::string_view unit = text.substr(at);
  if (unit == "m") {
    return value * scale / 1000;
  }
  LOCKSTEP_CHECK(at > 0 && kUnits.count(unit) > 0, std::string(text));
  return MultiplySaturated(MultiplySaturated(value, scale), kUnits.at(unit));
}

Amounts RequestsOfSpec(const Json& pod_spec) {
  Amounts sum;
  if (const Json* const containers = Field(pod_spec, "containers")) {
    for (const Json& container : *containers) {
      AddTo(&sum, RequestsOfContainer(container));
    }
  }
  Amounts sidecars;
  Amounts most;
  if (const Json* const containers = Field(pod_spec, "initContainers")) {
    for (const Json& container : *containers) {
      Amounts beside = sidecars;
      AddTo(&beside, RequestsOfContainer(container));
      RaiseTo(&most, beside);
      if (TextAt(container, "restartPolicy") == "Always") {
        sidecars = std::move(beside);
      }
    }
  }
  AddTo(&sum, sidecars);
  RaiseTo(&sum, most);
  AddTo(&sum, ReadAmounts(Field(pod_spec, "overhead")));
  return sum;
}

Amounts RequestsOfPod(const Json& pod) {
  return RequestsOfSpec(pod.at("spec"));
}

Amounts AllocatableOf(const Json& node) {
  return ReadAmounts(Field(node.at("status"), "allocatable"));
}

int64_t AmountOf(const Amounts& amounts, const std::string& resource) {
  const auto found = amounts.find(resource);
  return found == amounts.end() ? 0 : found->second;
}

void AddTo(Amounts* sum, const Amounts& more) {
  for (const auto& [name, amount] : more) {
    (*sum)[name] = AddSaturated((*sum)[name], amount);
  }
}

int64_t CountThatFits(const Amounts& free, const Amounts& request) {
  int64_t count = std::numeric_limits<int64_t>::max();
  for (const auto& [name, amount] : request) {
    if (amount > 0) {
      count = std::min(count, std::max<int64_t>(0, AmountOf(free, name)) / amount);
    }
  }
  return count;
}

std::string Shortage(const Amounts& allocatable, const Amounts& used, const Amounts& more) {
  for (const auto& [name, amount] : more) {
    if (amount > 0 && AmountOf(used, name) + amount > AmountOf(allocatable, name)) {
      return name;
    }
  }
  return "";
}

std::string JobUidOf(const Json& object) {
  const Json* const owners = Field(object.at("metadata"), "ownerReferences");
  if (owners == nullptr) {
    return "";
  }
  for (const Json& owner : *owners) {
    if (owner.value("controller", false) && TextAt(owner, "kind") == "TrainingJob") {
      return TextAt(owner, "uid");
    }
  }
  return "";
}

std::string NodeWantedBy(const Json& pod) {
  const std::string bound = TextAt(pod, "spec.nodeName");
  const Json* at = &pod.at("spec");
  for (const char* field : {"affinity",
                            "nodeAffinity",
                            "requiredDuringSchedulingIgnoredDuringExecution",
                            "nodeSelectorTerms"}) {
    at = at == nullptr ? nullptr : Field(*at, field);
  }
  if (!bound.empty() || at == nullptr || at->size() != 1) {
    return bound;
  }
  const Json* const fields = Field(at->at(0), "matchFields");
  if (fields == nullptr) {
    return "";
  }
  for (const Json& field : *fields) {
    if (TextAt(field, "key") == "metadata.name" && field.at("values").size() == 1) {
      return field.at("values").at(0).get<std::string>();
    }
  }
  return "";
}

bool HasPodEnded(const Json& pod) {
  const std::string phase = TextAt(pod, "status.phase");
  return phase == "Succeeded" || phase == "Failed";
}

std::string LabelOf(const Json& object, std::string_view label) {
  const Json* const labels = Field(object.at("metadata"), "labels");
  const Json* const value = labels == nullptr ? nullptr : Field(*labels, label);
  return value == nullptr ? "" : value->get<std::string>();
}

bool IsNodeReady(const Json& node) {
  for (const Json& condition : node.at("status").at("conditions")) {
    if (TextAt(condition, "type") == "Ready") {
      return TextAt(condition, "status") == "True";
    }
  }
  return false;
}

}  // namespace lockstep::control::sim
