#include "operator/scheduler/room.h"

#include <algorithm>
#include <tuple>

namespace lockstep::control {
namespace {

int64_t Left(int64_t allocatable, int64_t used) {
  return std::max<int64_t>(0, allocatable - used);
}

// How often `request` goes into `free`; a request of nothing never limits.
int64_t Times(int64_t free, int64_t request, int64_t count_max) {
  return request <= 0 ? count_max : std::min(count_max, free / request);
}

bool Tolerates(const PodToleration& toleration, const NodeTaint& taint) {
  return (toleration.effect.empty() || toleration.effect == taint.effect) &&
         (toleration.key.empty() ? toleration.is_exists : toleration.key == taint.key) &&
         (toleration.is_exists || toleration.value == taint.value);
}

// Nodes that should be filled sooner come first: tight ones, where a class without GPUs counts a
// node's GPUs before all else, because pods there would strand them.
bool IsTighter(const NodeRoom& a, const NodeRoom& b) {
  return std::tie(a.free.gpu_count, a.free.cpu_milli, a.free.memory_bytes, a.node->name) <
         std::tie(b.free.gpu_count, b.free.cpu_milli, b.free.memory_bytes, b.node->name);
}

struct Candidate {
  std::size_t room_index;
  int64_t capacity;   // in pods, at most the class's pods
  bool strands_gpus;  // the class has no use for the GPUs this node has left
};

// Rooms that hold a pod of the class: by kind, then falling capacity, then tightness.
std::vector<Candidate> SortedCandidates(const std::vector<NodeRoom>& rooms,
                                        const PodClass& pod_class,
                                        int64_t wanted) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    const int64_t capacity = PodsThatFit(rooms[i], pod_class, wanted);
    if (capacity > 0) {
      candidates.push_back(
          {i, capacity, pod_class.request.gpu_count == 0 && rooms[i].free.gpu_count > 0});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    if (a.strands_gpus != b.strands_gpus) {
      return !a.strands_gpus;
    }
    if (a.capacity != b.capacity) {
      return a.capacity > b.capacity;
    }
    return IsTighter(rooms[a.room_index], rooms[b.room_index]);
  });
  return candidates;
}

// Where the next pods go: the candidate at `index` while it cannot hold all that remain; else the
// smallest of its kind that can, which wastes least.
std::size_t TightestHolding(const std::vector<Candidate>& candidates,
                            std::size_t index,
                            int64_t remaining) {
  std::size_t chosen = index;
  for (std::size_t i = index; i < candidates.size(); ++i) {
    if (candidates[i].capacity < remaining ||
        candidates[i].strands_gpus != candidates[index].strands_gpus) {
      break;
    }
    // Equal capacities stand in order of tightness: the first of them stays.
    if (candidates[i].capacity < candidates[chosen].capacity) {
      chosen = i;
    }
  }
  return chosen;
}

}  // namespace

std::vector<NodeRoom> OpenRooms(const Snapshot& snapshot) {
  std::vector<NodeRoom> rooms;
  for (const SnapshotNode& node : snapshot.nodes) {
    if (node.state != NodeState::kOpen) {
      continue;
    }
    rooms.push_back(
        {&node,
         {Left(node.allocatable.cpu_milli, node.used.cpu_milli),
          Left(node.allocatable.memory_bytes, node.used.memory_bytes),
          Left(node.allocatable.gpu_count, node.used.gpu_count)},
         node.pod_count_max == 0 ? kPodsUnlimited : Left(node.pod_count_max, node.pod_count)});
  }
  std::sort(rooms.begin(), rooms.end(), [](const NodeRoom& a, const NodeRoom& b) {
    return a.node->name < b.node->name;
  });
  return rooms;
}

bool MatchesSelector(const SnapshotNode& node, const PodClass& pod_class) {
  return std::all_of(
      pod_class.node_selector.begin(), pod_class.node_selector.end(), [&](const auto& wanted) {
        const auto found = node.labels.find(wanted.first);
        return found != node.labels.end() && found->second == wanted.second;
      });
}

const NodeTaint* UntoleratedTaint(const SnapshotNode& node, const PodClass& pod_class) {
  const auto found =
      std::find_if(node.taints.begin(), node.taints.end(), [&](const NodeTaint& taint) {
        return std::none_of(
            pod_class.tolerations.begin(),
            pod_class.tolerations.end(),
            [&](const PodToleration& toleration) { return Tolerates(toleration, taint); });
      });
  return found == node.taints.end() ? nullptr : &*found;
}

bool Accepts(const SnapshotNode& node, const PodClass& pod_class) {
  return MatchesSelector(node, pod_class) && UntoleratedTaint(node, pod_class) == nullptr;
}

int64_t PodsThatFit(const NodeRoom& room, const PodClass& pod_class, int64_t count_max) {
  if (!Accepts(*room.node, pod_class)) {
    return 0;
  }
  const Resources& request = pod_class.request;
  int64_t count = std::min(count_max, room.pods_free);
  count = Times(room.free.gpu_count, request.gpu_count, count);
  count = Times(room.free.memory_bytes, request.memory_bytes, count);
  return Times(room.free.cpu_milli, request.cpu_milli, count);
}

void TakeRoom(const PodClass& pod_class, int64_t count, NodeRoom* room) {
  room->free.cpu_milli -= pod_class.request.cpu_milli * count;
  room->free.memory_bytes -= pod_class.request.memory_bytes * count;
  room->free.gpu_count -= pod_class.request.gpu_count * count;
  if (room->pods_free != kPodsUnlimited) {
    room->pods_free -= count;
  }
}

Fill PackClass(const std::vector<NodeRoom>& rooms, const PodClass& pod_class) {
  const auto wanted = static_cast<int64_t>(pod_class.pods.size());
  const std::vector<Candidate> candidates = SortedCandidates(rooms, pod_class, wanted);
  Fill fill(rooms.size(), 0);
  int64_t remaining = wanted;
  for (std::size_t i = 0; i < candidates.size() && remaining > 0; ++i) {
    const Candidate& chosen = candidates[TightestHolding(candidates, i, remaining)];
    const int64_t count = std::min(remaining, chosen.capacity);
    fill[chosen.room_index] = count;
    remaining -= count;
  }
  return fill;
}

}  // namespace lockstep::control
