#include "operator/scheduler/plan/room.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace lockstep::control {
namespace {

// Whether the room has devices left that the class has no use for.
bool StrandsDevices(const NodeRoom& room, const ResourceVector& request) {
  return (request.gpu_count == 0 && room.free.gpu_count > 0) ||
         std::any_of(room.free.others.begin(), room.free.others.end(), [&](const auto& other) {
           return IsDevice(other.name) && request.AmountOf(other.name) == 0;
         });
}

// Nodes that should be filled sooner come first: tight ones, where a class without GPUs counts a
// node's GPUs before all else, because pods there would strand them.
bool IsTighter(const NodeRoom& a, const NodeRoom& b) {
  return std::tie(a.free.gpu_count, a.free.cpu_milli, a.free.memory_bytes, a.node->name) <
         std::tie(b.free.gpu_count, b.free.cpu_milli, b.free.memory_bytes, b.node->name);
}

struct Candidate {
  std::size_t room_index;
  int64_t capacity;      // in pods, at most the class's pods
  int64_t suspicion;     // of the node
  bool strands_devices;  // the class has no use for devices that this node has left
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
          {i, capacity, SuspicionOn(rooms[i]), StrandsDevices(rooms[i], pod_class.request)});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    if (a.suspicion != b.suspicion) {
      return a.suspicion < b.suspicion;
    }
    if (a.strands_devices != b.strands_devices) {
      return !a.strands_devices;
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
        candidates[i].suspicion != candidates[index].suspicion ||
        candidates[i].strands_devices != candidates[index].strands_devices) {
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

RoomSurvey SurveyOf(const Snapshot& snapshot) {
  RoomSurvey survey;
  survey.is_one_machine = snapshot.is_one_machine;
  for (const SnapshotNode& node : snapshot.nodes) {
    if (node.state != NodeState::kOpen) {
      survey.closed.push_back({&node, {}, 0});
      continue;
    }
    survey.open.push_back({&node,
                           Left(node.allocatable, node.used),
                           node.pod_count_max == 0
                               ? kPodsUnlimited
                               : std::max<int64_t>(0, node.pod_count_max - node.pod_count)});
  }
  std::sort(survey.open.begin(), survey.open.end(), [](const NodeRoom& a, const NodeRoom& b) {
    return a.node->name < b.node->name;
  });
  return survey;
}

int64_t SuspicionOn(const NodeRoom& room) {
  return room.node->suspicion + room.suspected;
}

int64_t NodeCount(const std::vector<NodeRoom>& rooms) {
  int64_t count = 0;
  for (const NodeRoom& room : rooms) {
    count += room.twins;
  }
  return count;
}

bool AskAlike(const PodClass& a, const PodClass& b) {
  return a.request == b.request && a.node_selector == b.node_selector &&
         a.tolerations == b.tolerations && a.node_affinity == b.node_affinity;
}

bool MatchesSelector(const SnapshotNode& node, const PodClass& pod_class) {
  const bool has_labels = std::all_of(
      pod_class.node_selector.begin(), pod_class.node_selector.end(), [&](const auto& wanted) {
        const auto found = node.labels.find(wanted.first);
        return found != node.labels.end() && found->second == wanted.second;
      });
  return has_labels && MatchesAnyTerm(*pod_class.node_affinity, node.name, node.labels);
}

bool Accepts(const SnapshotNode& node, const PodClass& pod_class) {
  return MatchesSelector(node, pod_class) &&
         UntoleratedTaint(node.taints, pod_class.tolerations) == nullptr;
}

int64_t PodsThatFit(const NodeRoom& room, const PodClass& pod_class, int64_t count_max) {
  if (!Accepts(*room.node, pod_class)) {
    return 0;
  }
  count_max = std::min({count_max, room.pods_free, room.apart < 0 ? count_max : 1});
  return CountThatFits(room.free, pod_class.request, count_max);
}

bool IsBetterAlone(const NodeRoom& a, const NodeRoom& b, const ResourceVector& request) {
  const auto standing = [&](const NodeRoom& room) {
    return std::pair(SuspicionOn(room), StrandsDevices(room, request));
  };
  return standing(a) != standing(b) ? standing(a) < standing(b) : IsTighter(a, b);
}

void TakeRoom(const PodClass& pod_class, int64_t count, NodeRoom* room) {
  room->free = Without(room->free, Times(pod_class.request, count));
  if (room->pods_free != kPodsUnlimited) {
    room->pods_free -= count;
  }
}

Fill PackClass(const std::vector<NodeRoom>& rooms, const PodClass& pod_class) {
  const auto wanted = static_cast<int64_t>(pod_class.pods.size());
  const std::vector<Candidate> candidates = SortedCandidates(rooms, pod_class, wanted);
  Fill fill(rooms.size(), 0);
  std::vector<int32_t> taken;  // domains that have their one pod
  int64_t remaining = wanted;
  for (std::size_t i = 0; i < candidates.size() && remaining > 0; ++i) {
    const Candidate& chosen = candidates[TightestHolding(candidates, i, remaining)];
    const int32_t apart = rooms[chosen.room_index].apart;
    if (apart >= 0 && std::find(taken.begin(), taken.end(), apart) != taken.end()) {
      continue;
    }
    if (apart >= 0) {
      taken.push_back(apart);
    }
    const int64_t count = std::min(remaining, chosen.capacity);
    fill[chosen.room_index] = count;
    remaining -= count;
  }
  return fill;
}

Plan PlanOf(const std::vector<PodClass>& classes,
            const std::vector<NodeRoom>& rooms,
            const std::vector<Fill>& fills) {
  Plan plan;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::size_t next_pod = 0;
    for (std::size_t r = 0; r < rooms.size(); ++r) {
      for (int64_t i = 0; i < fills[c][r]; ++i) {
        plan.node_by_pod[classes[c].pods[next_pod++]] = rooms[r].node->name;
      }
    }
  }
  return plan;
}

}  // namespace lockstep::control
