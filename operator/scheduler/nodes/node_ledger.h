#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operator/resources/node_usage.h"
#include "operator/scheduler/nodes/node_topology.h"
#include "operator/scheduler/nodes/shape_counts.h"
#include "operator/scheduler/plan/room.h"

namespace lockstep::control {

// In what way gangs hold room of a node.
enum class Holding {
  kStaying,  // by pods that are there, or are about to be
  kLeaving,  // by pods that were asked to go
  kClaimed,  // kept for a gang, which starts when the pods in its way have gone
};

// Whether all of `usage` fits what is left of one node.
bool HasRoomFor(const NodeFree& left, const NodeUsage& usage);

// What is left when `usage` is taken of it, too; nothing of what it has too little of.
NodeFree Beside(NodeFree left, const NodeUsage& usage);

// What each node can give, what everybody holds of it, and what is left. Until those have gone who
// leave, what is claimed counts beside what they hold: which of them a claim waits for is not known
// here, and those who leave for somebody else make no room for others in what is kept.
//
// Nodes that are alike, in what they offer and in what they have left, are one group: a plan looks
// at groups, and at as many nodes of each as the gang has pods.
//
// Cost of a change of one node: its group, and each known shape's counts; no other node is touched.
// Ties everywhere go by name, so that the order in which nodes became known shows nowhere.
class NodeLedger {
 public:
  // Levels as in DomainTree, without kHostLevel.
  NodeLedger(std::vector<std::string> levels, bool is_one_machine);

  // The node as it is now. `used` and `pod_count` are what strangers hold of it.
  void SetNode(const SnapshotNode& node);
  void RemoveNode(const std::string& name);
  // Nothing happens where nobody knows the node.
  void SetStrangers(const std::string& node, const NodeUsage& usage);

  // A number for the node, also before it is known: room may be held of what is to be seen yet. It
  // is the node's for as long as the node is known or anything is held of it.
  NodeIndex IndexOf(const std::string& name);

  // The number is free again where the node is not known and nothing is held of it. Not while a
  // hold that was released is to be put back.
  void ForgetIfGone(NodeIndex node);

  // Empty: nobody has named such a node yet.
  std::optional<NodeIndex> Find(const std::string& name) const;

  // Those that are not known, too.
  const std::map<std::string, NodeIndex, std::less<>>& by_name() const { return index_by_name_; }

  const std::string& NameOf(NodeIndex node) const { return nodes_[node].facts.name; }

  // Adds to what gangs hold of the node, or takes away.
  void Hold(NodeIndex node, Holding how, const NodeUsage& usage);
  void Release(NodeIndex node, Holding how, const NodeUsage& usage);
  // The same pods hold it in another way.
  void Move(NodeIndex node, Holding from, Holding to, const NodeUsage& usage);

  ShapeIndex AddShape(const PodClass& pod_class);

  void DropShape(ShapeIndex shape) { shapes_.Drop(shape); }

  const ShapeCounts& shapes() const { return shapes_; }

  const DomainTree& domains() const { return domains_; }

  // Another number when a node that was known is in another domain than before, or gone.
  uint64_t domains_version() const { return domains_version_; }

  DomainIndex DomainOf(NodeIndex node) const { return nodes_[node].domain; }

  // Of all nodes that accept pods.
  const ResourceVector& free_in_all() const { return free_in_all_; }

  // Of all nodes that are known.
  const ResourceVector& offered_in_all() const { return offered_in_all_; }

  std::size_t index_end() const { return nodes_.size(); }

  bool is_known(NodeIndex node) const { return nodes_[node].is_known; }

  bool is_one_machine() const { return is_one_machine_; }

  const SnapshotNode& FactsOf(NodeIndex node) const { return nodes_[node].facts; }

  const NodeUsage& StrangersOn(NodeIndex node) const { return nodes_[node].strangers; }

  const NodeFree& FreeNow(NodeIndex node) const { return nodes_[node].now; }

  const NodeFree& FreeOfStrangers(NodeIndex node) const { return nodes_[node].empty; }

  // What is free now, were nothing claimed.
  NodeFree FreeBesideLeaving(NodeIndex node) const;
  // What those who stay leave over, were all gone that have been asked to, and nothing claimed.
  NodeFree FreeOfStaying(NodeIndex node) const;

  // A number that is another one after every change, with what has changed since an earlier one;
  // empty where that is too long ago.
  uint64_t version() const { return changes_begin_ + changes_.size(); }

  std::optional<std::vector<NodeIndex>> ChangedSince(uint64_t version) const;

  // Other amounts than what the nodes have left.
  using Overrides = std::map<NodeIndex, NodeFree>;

  // Of whoever asks, beside the nodes' own suspicion; all above 0.
  using Suspects = std::map<NodeIndex, int64_t>;

  struct RoomQuery {
    const std::vector<PodClass>& classes;
    DomainIndex domain = kWholeCluster;
    const Overrides* overrides = nullptr;  // null: none
    std::string_view apart = {};           // level; empty: pods may stand together
    int64_t suspicion_max = std::numeric_limits<int64_t>::max();  // of nodes that are looked at
    std::optional<std::size_t> level = std::nullopt;  // nodes in no domain of it are left out
    const Suspects* suspects = nullptr;               // null: none
  };

  // Rooms of the domain for a gang, along the topology: as many nodes of each group as may be of
  // use, and each suspect that may be. No arrangement is lost by those that are left out.
  std::vector<NodeRoom> RoomsFor(const RoomQuery& query) const;

  // The node that holds all pods of the classes and has least left beside them; empty where none
  // does. Nodes that are overridden are not looked at, and `domain` and `apart` are not heeded.
  // Where the others are used, `level` is not: it is for domains of that level that they ask.
  std::optional<NodeIndex> TightestHolding(const RoomQuery& query) const;

  bool has_suspects() const { return suspect_count_ > 0; }

  // All nodes, those alike counted once. Where pods stand apart, those in no domain are left out.
  RoomSurvey Survey(const std::vector<PodClass>& classes, std::string_view apart) const;

 private:
  using KindIndex = std::uint32_t;
  // What groups have in common beside what they have left.
  using NodeKind = std::tuple<NodeState, int64_t, std::vector<Taint>, ResourceVector, int64_t>;

  struct GroupKey {
    KindIndex kind = 0;
    NodeFree room;

    friend bool operator<(const GroupKey& a, const GroupKey& b) {
      return std::tie(a.kind, a.room.free, a.room.pods_free) <
             std::tie(b.kind, b.room.free, b.room.pods_free);
    }
  };

  using Groups = std::map<GroupKey, std::vector<NodeIndex>>;  // nodes by name

  struct LedgerNode {
    SnapshotNode facts;  // without what is used
    bool is_known = false;
    NodeUsage strangers;
    NodeUsage staying;
    NodeUsage leaving;
    NodeUsage claimed;
    NodeFree now;
    NodeFree empty;
    DomainIndex domain = kWholeCluster;
    KindIndex kind = 0;
  };

  struct Collector;

  static NodeUsage& PartOf(Holding how, LedgerNode* node);
  NodeFree FreeBeside(const LedgerNode& node, const NodeUsage& used) const;
  static NodeKind KindOf(const SnapshotNode& facts);
  void TakeOut(NodeIndex node);
  void PutIn(NodeIndex node);
  void Recount(NodeIndex node);
  void JoinGroup(NodeIndex node);
  void LeaveGroup(NodeIndex node);
  void Note(NodeIndex node);
  void CollectDomain(DomainIndex domain, Collector* collector) const;
  void CollectGroups(const Groups& groups, bool leaves_out, Collector* collector) const;
  void CollectLabelled(const NodeFree& room,
                       const std::vector<NodeIndex>& nodes,
                       Collector* collector) const;

  bool is_one_machine_;
  DomainTree domains_;
  std::deque<LedgerNode> nodes_;  // rooms point into it
  std::map<std::string, NodeIndex, std::less<>> index_by_name_;
  std::vector<NodeIndex> vacant_;                            // numbers that no node has
  std::map<NodeKind, std::pair<KindIndex, int64_t>> kinds_;  // with the number of nodes
  KindIndex kinds_made_ = 0;
  std::vector<Groups> groups_by_domain_;  // in a node's narrowest domain
  ShapeCounts shapes_;
  ResourceVector free_in_all_;
  ResourceVector offered_in_all_;
  int64_t suspect_count_ = 0;
  std::vector<NodeIndex> changes_;
  uint64_t changes_begin_ = 0;
  uint64_t domains_version_ = 1;
};

}  // namespace lockstep::control
