#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "operator/scheduler/nodes/node_topology.h"
#include "operator/scheduler/plan/room.h"

namespace lockstep::control {

using NodeIndex = std::uint32_t;
using ShapeIndex = std::uint32_t;

// What a node can take: now, or if only strangers held anything of it.
struct NodeFree {
  ResourceVector free;
  int64_t pods_free = 0;  // 0 where the node accepts none

  friend bool operator==(const NodeFree&, const NodeFree&) = default;
};

// How many pods of each shape fit each domain, one shape at a time. A shape is what a pod asks for
// and which nodes it accepts; all pods of a class have one. Kept up to date node by node, so that
// whether a gang of one shape fits a domain is a comparison of two numbers.
//
// Cost: some ten nanoseconds for each shape where a node changes; a pass over the nodes where a
// shape appears that is not known.
class ShapeCounts {
 public:
  // What changes of one node, which is in `domain` and all domains above.
  struct NodeChange {
    NodeIndex node = 0;
    DomainIndex domain = kWholeCluster;
    const SnapshotNode* facts = nullptr;
    const NodeFree& now_before;
    const NodeFree& now_after;
    const NodeFree& empty_before;
    const NodeFree& empty_after;
  };

  // `key` as KeyOf gives it. Shapes that nobody uses any more stay for a while.
  struct Added {
    ShapeIndex shape = 0;
    bool is_new = false;  // it counts no node yet: Count all of them
  };

  static std::string KeyOf(const PodClass& pod_class);

  Added Add(const PodClass& pod_class);
  void Drop(ShapeIndex shape);

  // Looks again at which shapes the node accepts. Before: it counts nowhere.
  void SetFacts(NodeIndex node, const SnapshotNode& facts);

  void Change(const NodeChange& change, const DomainTree& domains);

  // The node counts for one shape that is new.
  void Count(ShapeIndex shape, const NodeChange& change, const DomainTree& domains);

  // Pods of the shape that fit the domain, each node counted for at most kPodsOfNodeMax.
  int64_t FitsNow(ShapeIndex shape, DomainIndex domain) const {
    return ValueAt(shapes_[shape].now, domain);
  }

  // The same if only strangers held anything.
  int64_t FitsEmpty(ShapeIndex shape, DomainIndex domain) const {
    return ValueAt(shapes_[shape].empty, domain);
  }

  bool Accepts(ShapeIndex shape, NodeIndex node) const {
    return shapes_[shape].is_accepted[node] != 0;
  }

  static int64_t PodsOn(const NodeFree& room, const ResourceVector& request);

 private:
  struct Shape {
    PodClass pod_class;  // without pods
    std::string key;
    int64_t users = 0;
    int64_t unused_since = 0;       // by releases_
    std::vector<char> is_accepted;  // by node
    std::vector<int64_t> now;       // by domain
    std::vector<int64_t> empty;
  };

  static int64_t ValueAt(const std::vector<int64_t>& counts, DomainIndex domain) {
    return domain < counts.size() ? counts[domain] : 0;
  }

  void ForgetOldest();

  std::vector<Shape> shapes_;
  std::map<std::string, ShapeIndex> by_key_;
  std::vector<ShapeIndex> vacant_;
  std::map<int64_t, ShapeIndex> idle_;  // by unused_since
  int64_t releases_ = 0;
};

// A pod that asks for nothing fits without limit; sums of so many over all nodes do not overflow.
inline constexpr int64_t kPodsOfNodeMax = int64_t{1} << 20;

// Shapes kept for their next gang. Choice: a few for each team's usual jobs.
inline constexpr std::size_t kIdleShapesMax = 64;

}  // namespace lockstep::control
