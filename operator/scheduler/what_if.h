#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Pods that a role may be asked about. Choice: more than any cluster runs.
inline constexpr int64_t kReplicasMax = 100'000;

// What would be otherwise. A change of nothing asks how things stand.
struct WhatIfChange {
  std::string gang{};                         // "namespace/job", which waits
  std::map<std::string, int64_t> replicas{};  // pods of these roles; of the others as they are
  std::optional<std::string> queue{};
  std::optional<int64_t> priority{};
  // Nodes that take no pods any more and whose pods are gone. Gangs that have some there lose all
  // of their places.
  std::set<std::string> drained{};
  std::vector<SnapshotNode> further_nodes{};
};

struct WhatIfAnswer {
  // Where it would start, or where room would be kept for it until others have gone; empty: it
  // would wait.
  PlacedPods pods;
  std::vector<std::string> evicted;  // who would have to go for it first, by name
  // When it would start at the latest; null: nobody knows.
  std::optional<WallTime> at;
  std::optional<Unschedulable> missing;  // why it would wait
  std::optional<int64_t> position;       // among those of its queue that would wait
  std::vector<std::string> displaced;    // who would have lost their places as nodes are drained
};

// What one round would come to for the gang after the change. Of those that lose their places as
// nodes are drained, those of which it is known what they ask for wait again, in their place, and
// may go first; the others count as ended.
//
// `state` is looked at and stays as it is: all is done on a copy.
// Errors: kNotFound (gang, role or node is not there), kInvalidArgument (the gang does not wait; a
// role of no pods; a further node that is there already).
// Cost: that of the copy, and of a round in which everybody has its turn. Thread: any that may read
// the state.
Result<WhatIfAnswer> WhatIf(const ClusterState& state, const WhatIfChange& change, WallTime now);

}  // namespace lockstep::control
