#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "operator/scheduler/plan/plan.h"

namespace lockstep::control {

// Stands for "no limit" in NodeRoom::pods_free.
inline constexpr int64_t kPodsUnlimited = std::numeric_limits<int64_t>::max();

// What one node has left. Nodes stand in name order and are known by index from here on.
struct NodeRoom {
  const SnapshotNode* node = nullptr;  // owned by the snapshot
  ResourceVector free;
  int64_t pods_free = kPodsUnlimited;
  int64_t twins = 1;   // how many nodes it stands for, all alike to whoever asks
  int32_t apart = -1;  // of all rooms with the same number from 0 on only one takes a pod, and one
  int64_t suspected = 0;  // by whoever asks, beside the node's own suspicion
};

// All nodes as one question sees them, each counted once.
struct RoomSurvey {
  std::vector<NodeRoom> open;    // what nodes that accept pods have left
  std::vector<NodeRoom> closed;  // nodes that are cordoned or not ready
  bool is_one_machine = false;   // refusals then speak of "this machine", not of nodes
};

// Open nodes stand by name.
RoomSurvey SurveyOf(const Snapshot& snapshot);

// How little the room is to be chosen.
int64_t SuspicionOn(const NodeRoom& room);

// How many nodes the rooms stand for.
int64_t NodeCount(const std::vector<NodeRoom>& rooms);

// Whether pods of both ask for the same of the same nodes, whatever they are called.
bool AskAlike(const PodClass& a, const PodClass& b);

// Whether `node` carries every label the class asks for, and has the affinity it requires.
bool MatchesSelector(const SnapshotNode& node, const PodClass& pod_class);

// Whether the node lets pods of the class in, room aside.
bool Accepts(const SnapshotNode& node, const PodClass& pod_class);

// How many pods of the class the room holds, at most `count_max`.
int64_t PodsThatFit(const NodeRoom& room, const PodClass& pod_class, int64_t count_max);

// Whether a pod that has the node for itself does less harm in `a`: less suspicion, then no devices
// left that it has no use for, then the tighter room, then the name.
bool IsBetterAlone(const NodeRoom& a, const NodeRoom& b, const ResourceVector& request);

// Takes room for `count` pods of the class. Precondition: they fit.
void TakeRoom(const PodClass& pod_class, int64_t count, NodeRoom* room);

// Number of pods of the class that go to each room (same indices).
using Fill = std::vector<int64_t>;

// Places as many pods of the class as fit, in the documented packing order; the sum is less than
// the class's pods exactly where they do not all fit.
Fill PackClass(const std::vector<NodeRoom>& rooms, const PodClass& pod_class);

// The nodes that fills, one for each class, come to. Neighbours in a class stay neighbours: its
// pods fill the rooms in their order. Precondition: the fills hold no more pods than the classes.
Plan PlanOf(const std::vector<PodClass>& classes,
            const std::vector<NodeRoom>& rooms,
            const std::vector<Fill>& fills);

}  // namespace lockstep::control
