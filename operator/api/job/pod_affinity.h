#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "operator/resources/node_affinity.h"

namespace lockstep::control {

// A required term of podAffinity or podAntiAffinity: in its topology domain there has to be a pod
// with such labels, or there may be none.
struct PodTerm {
  std::string path;  // where it is written: "spec.roles[0]. ... .podAffinity.required...[0]"
  bool is_anti = false;
  std::vector<NodeRequirement> labels;  // that hold together; empty: of any pod
  std::string topology_key;

  friend bool operator==(const PodTerm&, const PodTerm&) = default;
};

// What a pod spec requires of the node that its pod is on, and of pods there and beside it.
struct PodPlaceRules {
  std::vector<NodeTerm> nodes;
  std::vector<PodTerm> pods;
};

// Reads a pod spec's `affinity`. What it prefers stays between the user and nobody: each pod goes
// to the one node that was planned for it. Whether the gang can keep what it requires of other
// pods, says FindGangSpread. Refused are topologySpreadConstraints that must be kept: the plan does
// not know them, and the node it names would defeat them silently.
PodPlaceRules ReadAffinity(ObjectReader& pod_spec, std::vector<Error>* errors);

}  // namespace lockstep::control
