#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::control {

// How a requirement compares a node's value. Source: Kubernetes' NodeSelectorOperator.
enum class NodeOperator { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };

// One thing that a pod requires of its node.
struct NodeRequirement {
  std::string key;  // of a label; of a field: "metadata.name"
  NodeOperator op = NodeOperator::kIn;
  std::vector<std::string> values;

  friend bool operator==(const NodeRequirement&, const NodeRequirement&) = default;
};

// Requirements that hold together. A term without any matches no node.
struct NodeTerm {
  std::vector<NodeRequirement> labels;
  std::vector<NodeRequirement> fields;  // of metadata.name

  friend bool operator==(const NodeTerm&, const NodeTerm&) = default;
};

// Whether the node of that name and labels matches one of the terms; without terms every node does.
bool MatchesAnyTerm(const std::vector<NodeTerm>& terms,
                    const std::string& node,
                    const std::map<std::string, std::string>& labels);

// "zone In (a, b) and disk Exists, or metadata.name In (n1)".
std::string DescribeTerms(const std::vector<NodeTerm>& terms);

// "In", "NotIn", ...
std::string NodeOperatorName(NodeOperator op);

}  // namespace lockstep::control
