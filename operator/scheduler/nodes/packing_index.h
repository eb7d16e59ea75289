#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/scheduler/nodes/packing_score.h"

namespace lockstep::control {

// Where a pod goes, and what is left there then.
struct PackChoice {
  std::string node;
  PackRoom room_after;
};

// What all nodes have left, and which of them a pod goes to: the best by PackingScore::IsBetter; of
// equals the first by name.
//
// Nodes that have the same left are one group, looked at once; what was worked out for a group and
// a kind of pod is kept until one of them changes. Cost of a choice: a look at every group, and
// work for those that are new since the last pod of its kind.
class PackingIndex {
 public:
  // `score` outlives this.
  explicit PackingIndex(PackingScore* score) : score_(score) {}

  // The node has this left now. Precondition (checked): devices in rising order.
  void SetNode(const std::string& name, const PackRoom& room);
  void RemoveNode(const std::string& name);

  // Empty where it fits no node. Nothing is taken: SetNode says so where the pod goes there.
  std::optional<PackChoice> Choose(const PackRequest& request);

 private:
  struct KnownFit {
    bool is_known = false;
    std::optional<PackFit> fit;
  };

  struct RoomGroup {
    std::set<std::string> nodes;
    std::vector<KnownFit> fits;  // by kind of pod
  };

  std::size_t KindOf(const PackRequest& request);

  PackingScore* score_;
  uint64_t score_version_ = 0;
  std::map<PackRequest, std::size_t> kinds_;
  std::map<PackRoom, RoomGroup> groups_;
  std::map<std::string, std::map<PackRoom, RoomGroup>::iterator> group_by_node_;
};

}  // namespace lockstep::control
