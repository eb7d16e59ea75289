#include "operator/api/job/pod_affinity.h"

#include <optional>
#include <string_view>
#include <utility>

#include "common/json/enum_names.h"
#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"
#include "operator/api/fields/labels.h"

namespace lockstep::control {
namespace {

constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr const char* kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";

constexpr EnumNames<NodeOperator, 6> kNodeOperatorNames = {{
    {NodeOperator::kIn, "In"},
    {NodeOperator::kNotIn, "NotIn"},
    {NodeOperator::kExists, "Exists"},
    {NodeOperator::kDoesNotExist, "DoesNotExist"},
    {NodeOperator::kGt, "Gt"},
    {NodeOperator::kLt, "Lt"},
}};

bool IsComparison(NodeOperator op) {
  return op == NodeOperator::kGt || op == NodeOperator::kLt;
}

// What Kubernetes would refuse only once the first pod is created.
void CheckValues(ObjectReader& reader, const NodeRequirement& requirement) {
  const std::size_t count = requirement.values.size();
  const bool takes_none =
      requirement.op == NodeOperator::kExists || requirement.op == NodeOperator::kDoesNotExist;
  const std::string op = NodeOperatorName(requirement.op);
  if (takes_none && count > 0) {
    reader.Fail("values",
                std::to_string(count) + " found, but operator " + op + " takes no values");
  } else if (IsComparison(requirement.op) && count != 1) {
    reader.Fail("values",
                std::to_string(count) + " found, expected exactly one with operator " + op);
  } else if (!takes_none && count == 0) {
    reader.Fail("values", "missing, expected at least one with operator " + op);
  }
}

NodeRequirement ReadRequirement(ObjectReader& reader, Errors* errors) {
  NodeRequirement requirement;
  if (reader.Require("key", "a label's key") != nullptr) {
    requirement.key = ReadText(reader, "key");
  }
  const std::optional<NodeOperator> op = RequireEnum(reader, "operator", kNodeOperatorNames);
  requirement.op = op.value_or(NodeOperator::kExists);
  const std::size_t errors_before = errors->size();
  requirement.values = ReadWords(reader, "values", kAffinityValuesMax, errors);
  if (op.has_value() && errors->size() == errors_before) {
    CheckValues(reader, requirement);
  }
  reader.Finish();
  return requirement;
}

std::vector<NodeRequirement> ReadRequirements(ObjectReader& term,
                                              std::string_view key,
                                              Errors* errors) {
  std::vector<NodeRequirement> requirements;
  const std::vector<const Json*> items = ListUpTo(term, key, kAffinityRequirementsMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader reader(*items[i], term.PathOf(key, i), errors);
    requirements.push_back(ReadRequirement(reader, errors));
  }
  return requirements;
}

void CheckFields(ObjectReader& term, const std::vector<NodeRequirement>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const bool is_name = fields[i].key == "metadata.name";
    const bool is_listing =
        fields[i].op == NodeOperator::kIn || fields[i].op == NodeOperator::kNotIn;
    if (!is_name || !is_listing || fields[i].values.size() != 1) {
      term.Fail("matchFields", "expected metadata.name with operator In or NotIn and one value");
    }
  }
}

// The thread that decides for all jobs copies the values of each.
void CheckValuesInAll(ObjectReader& list, std::string_view key, std::size_t count) {
  if (count > kAffinityValuesInAllMax) {
    list.Fail(key, TooMany(count, "values in all terms", kAffinityValuesInAllMax));
  }
}

std::size_t CountValues(const std::vector<NodeRequirement>& requirements) {
  std::size_t count = 0;
  for (const NodeRequirement& requirement : requirements) {
    count += requirement.values.size();
  }
  return count;
}

std::vector<NodeTerm> ReadTerms(ObjectReader& required, Errors* errors) {
  std::vector<NodeTerm> terms;
  const Json* const listed = required.Require("nodeSelectorTerms", "a list of at least one term");
  const std::vector<const Json*> items = ListUpTo(required, "nodeSelectorTerms", kAffinityTermsMax);
  if (listed != nullptr && listed->is_array() && listed->empty()) {
    required.Fail("nodeSelectorTerms", "empty, expected at least one term");
  }
  std::size_t value_count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader term(*items[i], required.PathOf("nodeSelectorTerms", i), errors);
    NodeTerm read;
    read.labels = ReadRequirements(term, "matchExpressions", errors);
    read.fields = ReadRequirements(term, "matchFields", errors);
    CheckFields(term, read.fields);
    term.Finish();
    value_count += CountValues(read.labels);
    terms.push_back(std::move(read));
  }
  CheckValuesInAll(required, "nodeSelectorTerms", value_count);
  required.Finish();
  return terms;
}

// Selectors of labels know no comparison of numbers.
void CheckSelectorOperator(ObjectReader& reader, const NodeRequirement& requirement) {
  if (IsComparison(requirement.op)) {
    reader.Fail(
        "operator",
        NodeOperatorName(requirement.op) + " found, expected In, NotIn, Exists or DoesNotExist");
  }
}

std::vector<NodeRequirement> ReadSelector(ObjectReader& term, Errors* errors) {
  std::vector<NodeRequirement> labels;
  const Json* const value = term.Require("labelSelector", "the labels of this job's pods");
  if (value == nullptr) {
    return labels;
  }
  ObjectReader selector(*value, term.PathOf("labelSelector"), errors);
  CheckCount(selector, "matchLabels", kLabelsMax);
  for (const auto& [name, text] : ReadLabels(selector, "matchLabels", errors)) {
    labels.push_back({name, NodeOperator::kIn, {text}});
  }
  const std::vector<const Json*> items =
      ListUpTo(selector, "matchExpressions", kAffinityRequirementsMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader reader(*items[i], selector.PathOf("matchExpressions", i), errors);
    labels.push_back(ReadRequirement(reader, errors));
    CheckSelectorOperator(reader, labels.back());
  }
  selector.Finish();
  return labels;
}

// Of other namespaces the plan knows nothing, nor of labels that only the API server compares.
void RefuseForeignPods(ObjectReader& term) {
  for (const std::string_view key :
       {"namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"}) {
    const bool is_list = key != "namespaceSelector";
    if (is_list ? !term.List(key).empty() : term.Has(key)) {
      term.Fail(key,
                "found, but Lockstep plans for the pods of this job only; use only labelSelector "
                "and topologyKey");
    }
  }
}

// What is preferred only is Kubernetes' own.
void ReadPreferred(ObjectReader& reader, Errors* errors) {
  for (const Json* const preferred : ListUpTo(reader, kPreferred, kEntriesMax)) {
    const ObjectReader is_object(*preferred, reader.PathOf(kPreferred), errors);
  }
}

void ReadPodTerms(ObjectReader& affinity,
                  std::string_view kind,
                  std::vector<PodTerm>* terms,
                  Errors* errors) {
  const Json* const value = affinity.Find(kind);
  if (value == nullptr) {
    return;
  }
  ObjectReader reader(*value, affinity.PathOf(kind), errors);
  ReadPreferred(reader, errors);
  const std::vector<const Json*> items = ListUpTo(reader, kRequired, kAffinityTermsMax);
  std::size_t value_count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    PodTerm read{reader.PathOf(kRequired, i), kind == "podAntiAffinity", {}, ""};
    ObjectReader term(*items[i], read.path, errors);
    read.labels = ReadSelector(term, errors);
    if (term.Require("topologyKey", "the key of a node label") != nullptr) {
      read.topology_key = ReadText(term, "topologyKey");
      CheckLength(term, "topologyKey", kLabelKeyMax);
    }
    RefuseForeignPods(term);
    term.Finish();
    value_count += CountValues(read.labels);
    terms->push_back(std::move(read));
  }
  CheckValuesInAll(reader, kRequired, value_count);
  reader.Finish();
}

void CheckSpread(ObjectReader& pod_spec, Errors* errors) {
  const Json* const items = pod_spec.Find("topologySpreadConstraints");
  if (items == nullptr || !items->is_array()) {
    return;  // of another shape: said elsewhere
  }
  if (items->size() > kSpreadConstraintsMax) {
    pod_spec.Fail("topologySpreadConstraints",
                  TooMany(items->size(), "elements", kSpreadConstraintsMax));
    return;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    const Json& item = (*items)[i];
    if (item.is_object() && item.value("whenUnsatisfiable", Json()) == "DoNotSchedule") {
      AddError(errors,
               pod_spec.PathOf("topologySpreadConstraints", i) + ".whenUnsatisfiable",
               "\"DoNotSchedule\" found, but Lockstep does not plan for spreading yet, and its "
               "planned nodes might break the constraint; use ScheduleAnyway");
    }
  }
}

}  // namespace

PodPlaceRules ReadAffinity(ObjectReader& pod_spec, Errors* errors) {
  CheckSpread(pod_spec, errors);
  PodPlaceRules rules;
  const Json* const value = pod_spec.Find("affinity");
  if (value == nullptr || !value->is_object()) {
    return rules;  // of another shape: said elsewhere
  }
  ObjectReader affinity(*value, pod_spec.PathOf("affinity"), errors);
  if (const Json* const node = affinity.Find("nodeAffinity")) {
    ObjectReader reader(*node, affinity.PathOf("nodeAffinity"), errors);
    ReadPreferred(reader, errors);
    if (const Json* const required = reader.Find(kRequired)) {
      ObjectReader required_reader(*required, reader.PathOf(kRequired), errors);
      rules.nodes = ReadTerms(required_reader, errors);
    }
    reader.Finish();
  }
  ReadPodTerms(affinity, "podAffinity", &rules.pods, errors);
  ReadPodTerms(affinity, "podAntiAffinity", &rules.pods, errors);
  affinity.Finish();
  return rules;
}

}  // namespace lockstep::control
