#include "operator/resources/node_affinity.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace lockstep::control {
namespace {

std::optional<int64_t> WholeNumber(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

// Values that are no whole numbers match nothing.
bool IsOrdered(const NodeRequirement& requirement, const std::string& value) {
  const auto found = WholeNumber(value);
  const auto bound =
      requirement.values.empty() ? std::nullopt : WholeNumber(requirement.values.front());
  return found && bound &&
         (requirement.op == NodeOperator::kGt ? *found > *bound : *found < *bound);
}

// `value`: null where the node has none.
bool Holds(const NodeRequirement& requirement, const std::string* value) {
  const auto is_listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), *value) !=
           requirement.values.end();
  };
  switch (requirement.op) {
    case NodeOperator::kIn:
      return value != nullptr && is_listed();
    case NodeOperator::kNotIn:
      return value == nullptr || !is_listed();
    case NodeOperator::kExists:
      return value != nullptr;
    case NodeOperator::kDoesNotExist:
      return value == nullptr;
    case NodeOperator::kGt:
    case NodeOperator::kLt:
      return value != nullptr && IsOrdered(requirement, *value);
  }
  return false;
}

std::string Describe(const NodeRequirement& requirement) {
  std::string text = requirement.key + " " + NodeOperatorName(requirement.op);
  for (std::size_t i = 0; i < requirement.values.size(); ++i) {
    text += (i == 0 ? " (" : ", ") + requirement.values[i];
  }
  return text + (requirement.values.empty() ? "" : ")");
}

}  // namespace

bool MatchesAnyTerm(const std::vector<NodeTerm>& terms,
                    const std::string& node,
                    const std::map<std::string, std::string>& labels) {
  const auto label_holds = [&](const NodeRequirement& requirement) {
    const auto found = labels.find(requirement.key);
    return Holds(requirement, found == labels.end() ? nullptr : &found->second);
  };
  const auto name_holds = [&](const NodeRequirement& requirement) {
    return Holds(requirement, &node);
  };
  return terms.empty() || std::any_of(terms.begin(), terms.end(), [&](const NodeTerm& term) {
           return !(term.labels.empty() && term.fields.empty()) &&
                  std::all_of(term.labels.begin(), term.labels.end(), label_holds) &&
                  std::all_of(term.fields.begin(), term.fields.end(), name_holds);
         });
}

std::string DescribeTerms(const std::vector<NodeTerm>& terms) {
  std::string text;
  for (const NodeTerm& term : terms) {
    std::string all;
    for (const auto* const requirements : {&term.labels, &term.fields}) {
      for (const NodeRequirement& requirement : *requirements) {
        all += (all.empty() ? "" : " and ") + Describe(requirement);
      }
    }
    text += (text.empty() ? "" : ", or ") + (all.empty() ? "nothing" : all);
  }
  return text;
}

std::string NodeOperatorName(NodeOperator op) {
  switch (op) {
    case NodeOperator::kIn:
      return "In";
    case NodeOperator::kNotIn:
      return "NotIn";
    case NodeOperator::kExists:
      return "Exists";
    case NodeOperator::kDoesNotExist:
      return "DoesNotExist";
    case NodeOperator::kGt:
      return "Gt";
    case NodeOperator::kLt:
      return "Lt";
  }
  return "";
}

}  // namespace lockstep::control
