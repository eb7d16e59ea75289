#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "operator/scheduler/plan.h"

namespace lockstep::control {

// Stands for "no limit" in NodeRoom::pods_free.
inline constexpr int64_t kPodsUnlimited = std::numeric_limits<int64_t>::max();

// What one node has left. Nodes stand in name order and are known by index from here on.
struct NodeRoom {
  const SnapshotNode* node = nullptr;  // owned by the snapshot
  ResourceVector free;
  int64_t pods_free = kPodsUnlimited;
};

// Nodes that accept pods, by name, with what they have left.
std::vector<NodeRoom> OpenRooms(const Snapshot& snapshot);

// Whether `node` carries every label the class asks for, and has the affinity it requires.
bool MatchesSelector(const SnapshotNode& node, const PodClass& pod_class);

// Whether the node lets pods of the class in, room aside.
bool Accepts(const SnapshotNode& node, const PodClass& pod_class);

// How many pods of the class the room holds, at most `count_max`.
int64_t PodsThatFit(const NodeRoom& room, const PodClass& pod_class, int64_t count_max);

// Takes room for `count` pods of the class. Precondition: they fit.
void TakeRoom(const PodClass& pod_class, int64_t count, NodeRoom* room);

// Number of pods of the class that go to each room (same indices).
using Fill = std::vector<int64_t>;

// Places as many pods of the class as fit, in the documented packing order; the sum is less than
// the class's pods exactly where they do not all fit.
Fill PackClass(const std::vector<NodeRoom>& rooms, const PodClass& pod_class);

}  // namespace lockstep::control
