#include "operator/scheduler/plan/arrangement.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep::control {
namespace {

// Whether `a` is harder to find room for: more GPUs, then more of other devices, memory, cores.
bool IsScarcer(const ResourceVector& a, const ResourceVector& b) {
  return std::tie(a.gpu_count, a.others, a.host_ports, a.memory_bytes, a.cpu_milli) >
         std::tie(b.gpu_count, b.others, b.host_ports, b.memory_bytes, b.cpu_milli);
}

int64_t PlacedCount(const Fill& fill) {
  int64_t sum = 0;
  for (const int64_t count : fill) {
    sum += count;
  }
  return sum;
}

bool Holds(const Fill& fill, const PodClass& pod_class) {
  return PlacedCount(fill) == static_cast<int64_t>(pod_class.pods.size());
}

// Rooms that took no more pods because one stands in their domain, with what they had left before.
using ClosedRooms = std::vector<std::pair<std::size_t, int64_t>>;

// The gang has a pod in the domain `apart`, and may have no other there.
ClosedRooms CloseApart(int32_t apart, std::vector<NodeRoom>* rooms) {
  ClosedRooms closed;
  for (std::size_t i = 0; apart >= 0 && i < rooms->size(); ++i) {
    NodeRoom& room = (*rooms)[i];
    if (room.apart == apart) {
      closed.emplace_back(i, room.pods_free);
      room.pods_free = 0;
    }
  }
  return closed;
}

void ReopenApart(const ClosedRooms& closed, std::vector<NodeRoom>* rooms) {
  for (const auto& [index, pods_free] : closed) {
    (*rooms)[index].pods_free = pods_free;
  }
}

// Finds an arrangement of several classes, trying every one if it must. Within a class pods are
// interchangeable, so a choice is a number of pods for each node; nodes that are equal before a
// class take falling numbers, because other orders only rename nodes.
class ArrangementSearch {
 public:
  ArrangementSearch(const std::vector<PodClass>& classes,
                    std::vector<NodeRoom> rooms,
                    int64_t steps_max)
      : classes_(classes), rooms_(std::move(rooms)), steps_left_(steps_max) {}

  // One fill for each class; empty when there is none or the limit came first.
  std::optional<std::vector<Fill>> Run() {
    fills_.assign(classes_.size(), Fill(rooms_.size(), 0));
    if (!SearchClass(0)) {
      return std::nullopt;
    }
    return fills_;
  }

  bool reached_limit() const { return steps_left_ <= 0; }

 private:
  static constexpr std::size_t kNoTwin = static_cast<std::size_t>(-1);

  // What stays the same while the rooms of one class are tried.
  struct ClassPass {
    std::size_t class_index = 0;
    std::vector<std::size_t> twins;       // for each room the nearest equal one before it
    std::vector<int64_t> capacity_after;  // pods that fit the rooms from this index on
  };

  bool SearchClass(std::size_t class_index) {
    // Looking at every room for every later class is the real cost, so it is what is counted.
    steps_left_ -= static_cast<int64_t>(rooms_.size() * (classes_.size() - class_index));
    if (reached_limit()) {
      return false;
    }
    for (std::size_t later = class_index; later < classes_.size(); ++later) {
      Fill alone = PackClass(rooms_, classes_[later]);
      if (!Holds(alone, classes_[later])) {
        return false;
      }
      if (class_index + 1 == classes_.size()) {
        fills_[later] = std::move(alone);  // nothing comes after it: any fill that holds will do
        return true;
      }
    }
    const auto wanted = static_cast<int64_t>(classes_[class_index].pods.size());
    return SearchRoom(BeginPass(class_index, wanted), 0, wanted);
  }

  ClassPass BeginPass(std::size_t class_index, int64_t wanted) const {
    ClassPass pass;
    pass.class_index = class_index;
    pass.capacity_after.assign(rooms_.size() + 1, 0);
    for (std::size_t i = rooms_.size(); i-- > 0;) {
      pass.capacity_after[i] =
          pass.capacity_after[i + 1] + PodsThatFit(rooms_[i], classes_[class_index], wanted);
    }
    // What the classes can tell apart in two rooms.
    using Looks = std::tuple<ResourceVector, int64_t, int32_t, std::vector<bool>>;
    std::map<Looks, std::size_t> last_of_looks;
    for (std::size_t i = 0; i < rooms_.size(); ++i) {
      std::vector<bool> accepted;
      for (const PodClass& one : classes_) {
        accepted.push_back(Accepts(*rooms_[i].node, one));
      }
      const auto [found, is_first] = last_of_looks.try_emplace(
          Looks{rooms_[i].free, rooms_[i].pods_free, rooms_[i].apart, std::move(accepted)}, i);
      pass.twins.push_back(is_first ? kNoTwin : found->second);
      found->second = i;
    }
    return pass;
  }

  // Places the class's `remaining` pods on the rooms from `room_index` on, then the later classes.
  bool SearchRoom(const ClassPass& pass, std::size_t room_index, int64_t remaining) {
    if (remaining == 0) {
      return SearchClass(pass.class_index + 1);
    }
    if (remaining > pass.capacity_after[room_index]) {
      return false;
    }
    const PodClass& pod_class = classes_[pass.class_index];
    Fill& fill = fills_[pass.class_index];
    int64_t count = PodsThatFit(rooms_[room_index], pod_class, remaining);
    if (pass.twins[room_index] != kNoTwin) {
      count = std::min(count, fill[pass.twins[room_index]]);
    }
    for (; count >= 0; --count) {
      --steps_left_;
      if (reached_limit()) {
        return false;
      }
      fill[room_index] = count;
      TakeRoom(pod_class, count, &rooms_[room_index]);
      const ClosedRooms closed = CloseApart(count > 0 ? rooms_[room_index].apart : -1, &rooms_);
      const bool is_found = SearchRoom(pass, room_index + 1, remaining - count);
      ReopenApart(closed, &rooms_);
      TakeRoom(pod_class, -count, &rooms_[room_index]);
      if (is_found) {
        return true;
      }
      fill[room_index] = 0;
    }
    return false;
  }

  const std::vector<PodClass>& classes_;
  std::vector<NodeRoom> rooms_;
  std::vector<Fill> fills_;
  int64_t steps_left_;
};

// Each class in turn in its packing order; empty when a class finds no room.
std::optional<std::vector<Fill>> PackInOrder(const std::vector<PodClass>& classes,
                                             std::vector<NodeRoom> rooms) {
  std::vector<Fill> fills;
  for (const PodClass& pod_class : classes) {
    fills.push_back(PackClass(rooms, pod_class));
    if (!Holds(fills.back(), pod_class)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      const int64_t count = fills.back()[i];
      if (count > 0) {
        TakeRoom(pod_class, count, &rooms[i]);
        CloseApart(rooms[i].apart, &rooms);
      }
    }
  }
  return fills;
}

}  // namespace

std::vector<PodClass> MergedClasses(const Gang& gang, bool is_one_machine) {
  std::vector<PodClass> classes;
  for (PodClass pod_class : gang.classes) {
    if (pod_class.pods.empty()) {
      continue;
    }
    if (is_one_machine) {
      pod_class.request.host_ports.clear();
    }
    const auto same = std::find_if(classes.begin(), classes.end(), [&](const PodClass& other) {
      return AskAlike(other, pod_class);
    });
    if (same == classes.end()) {
      classes.push_back(pod_class);
    } else {
      same->name += "/" + pod_class.name;
      same->pods.insert(same->pods.end(), pod_class.pods.begin(), pod_class.pods.end());
    }
  }
  std::stable_sort(classes.begin(), classes.end(), [](const PodClass& a, const PodClass& b) {
    return IsScarcer(a.request, b.request);
  });
  return classes;
}

ArrangeResult Arrange(const std::vector<PodClass>& classes,
                      const std::vector<NodeRoom>& rooms,
                      int64_t steps_max) {
  if (auto fills = PackInOrder(classes, rooms)) {
    return {std::move(fills), false};
  }
  ArrangementSearch search(classes, rooms, steps_max);
  auto fills = search.Run();
  const bool reached_limit = !fills.has_value() && search.reached_limit();
  return {std::move(fills), reached_limit};
}

}  // namespace lockstep::control
