#include "operator/replay/placement_policy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

class WorthPolicy final : public PlacementPolicy {
 public:
  WorthPolicy() : index_(&score_) {}

  void SetNode(const std::string& name, const PackRoom& room) override {
    index_.SetNode(name, room);
  }

  std::optional<PackChoice> Choose(const PackRequest& request) override {
    score_.Observe(request);
    return index_.Choose(request);
  }

 private:
  PackingScore score_;
  PackingIndex index_;
};

// A node with its score, of which the highest wins, and what is left of it then.
struct Scored {
  double score = 0;
  PackRoom after;
};

// Scores every group of equal nodes; of equal scores the first node by name.
class ScoringPolicy : public PlacementPolicy {
 public:
  void SetNode(const std::string& name, const PackRoom& room) override {
    const auto found = room_by_node_.find(name);
    if (found != room_by_node_.end()) {
      const auto group = groups_.find(found->second);
      group->second.erase(name);
      if (group->second.empty()) {
        groups_.erase(group);
      }
    }
    room_by_node_[name] = room;
    groups_[room].insert(name);
  }

  std::optional<PackChoice> Choose(const PackRequest& request) override {
    Observe(request);
    std::optional<PackChoice> best;
    double best_score = 0;
    for (const auto& [room, nodes] : groups_) {
      if (!FitsRoom(room, request)) {
        continue;
      }
      Scored scored = Score(room, request);
      if (!best || scored.score > best_score ||
          (scored.score == best_score && *nodes.begin() < best->node)) {
        best = PackChoice{*nodes.begin(), std::move(scored.after)};
        best_score = scored.score;
      }
    }
    return best;
  }

 private:
  virtual void Observe(const PackRequest& request) = 0;
  virtual Scored Score(const PackRoom& room, const PackRequest& request) = 0;

  std::map<PackRoom, std::set<std::string>> groups_;
  std::map<std::string, PackRoom> room_by_node_;
};

// The rooms that the request may leave: one for each different device that it may share.
std::vector<PackRoom> RoomsAfter(const PackRoom& room, const PackRequest& request) {
  if (request.device_count != 1 || request.device_milli == kDeviceMilli) {
    return {RoomAfter(room, request, 0)};
  }
  std::vector<PackRoom> rooms;
  for (const int64_t free :
       std::set<int64_t>(room.device_milli_free.begin(), room.device_milli_free.end())) {
    if (free >= request.device_milli) {
      rooms.push_back(RoomAfter(room, request, free));
    }
  }
  return rooms;
}

class FgdPolicy final : public ScoringPolicy {
 private:
  // Pods of the most frequent kinds stand for all. Source: the simulator's configuration.
  static constexpr double kPopularShare = 0.95;
  static constexpr double kScoreMax = 100;

  void Observe(const PackRequest& request) override {
    ++counts_[request];
    ++total_;
    if (total_ < refresh_at_) {
      return;
    }
    refresh_at_ += std::min<int64_t>(refresh_at_, 1'024);
    fragments_.clear();
    popular_.clear();
    std::vector<std::pair<int64_t, PackRequest>> by_count;
    for (const auto& [kind, count] : counts_) {
      by_count.emplace_back(count, kind);
    }
    std::stable_sort(by_count.begin(), by_count.end(), [](const auto& a, const auto& b) {
      return a.first > b.first;
    });
    popular_total_ = 0;
    for (auto& [count, kind] : by_count) {
      if (static_cast<double>(popular_total_) >= kPopularShare * static_cast<double>(total_)) {
        break;
      }
      popular_total_ += count;
      popular_.emplace_back(count, std::move(kind));
    }
  }

  // How much of the free GPUs the popular pods could not use, each by itself; memory is not
  // looked at.
  double Fragment(const PackRoom& room) {
    const auto known = fragments_.find(room);
    if (known != fragments_.end()) {
      return known->second;
    }
    PackRoom ample = room;
    ample.free.memory_bytes = std::numeric_limits<int64_t>::max();
    const int64_t total = room.device_milli_total();
    double fragment = 0;
    for (const auto& [count, kind] : popular_) {
      int64_t unusable = total;
      if (kind.device_count > 0 && FitsRoom(ample, kind)) {
        unusable = 0;
        for (const int64_t free : room.device_milli_free) {
          unusable += free < kind.device_milli ? free : 0;
        }
      }
      fragment += static_cast<double>(count * unusable) / static_cast<double>(popular_total_);
    }
    fragments_.emplace(room, fragment);
    return fragment;
  }

  Scored Score(const PackRoom& room, const PackRequest& request) override {
    const double before = Fragment(room);
    Scored best{-1, {}};
    for (PackRoom& after : RoomsAfter(room, request)) {
      const double gain = (before - Fragment(after)) / kDeviceMilli;
      const double score = std::floor(kScoreMax / (1 + std::exp(-gain)));
      if (score > best.score) {
        best = {score, std::move(after)};
      }
    }
    return best;
  }

  std::map<PackRequest, int64_t> counts_;
  int64_t total_ = 0;
  int64_t refresh_at_ = 1;
  std::vector<std::pair<int64_t, PackRequest>> popular_;
  int64_t popular_total_ = 0;
  std::map<PackRoom, double> fragments_;
};

class BestFitPolicy final : public ScoringPolicy {
 private:
  // The largest node. Source: the simulator's constants.
  static constexpr double kCpuMilliMax = 128'000;
  static constexpr double kDeviceMilliMax = 8'000;
  static constexpr double kScoreMax = 100;

  void Observe(const PackRequest& /*request*/) override {}

  Scored Score(const PackRoom& room, const PackRequest& request) override {
    PackRoom after = RoomsAfter(room, request).front();
    const double left = (static_cast<double>(after.free.cpu_milli) / kCpuMilliMax +
                         static_cast<double>(after.device_milli_total()) / kDeviceMilliMax) /
                        2;
    return {std::floor((1 - left) * kScoreMax), std::move(after)};
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeWorthPolicy() {
  return std::make_unique<WorthPolicy>();
}

std::unique_ptr<PlacementPolicy> MakeFgdPolicy() {
  return std::make_unique<FgdPolicy>();
}

std::unique_ptr<PlacementPolicy> MakeBestFitPolicy() {
  return std::make_unique<BestFitPolicy>();
}

}  // namespace lockstep::control
