#include "operator/scheduler/nodes/node_ledger.h"

#include <algorithm>

namespace lockstep::control {
namespace {

// Changes told one by one. Choice: who asks more seldom than that looks at all nodes.
constexpr std::size_t kChangesMax = 65'536;

NodeUsage Added(const NodeUsage& a, const NodeUsage& b) {
  return {Sum(a.resources, b.resources), a.pod_count + b.pod_count};
}

NodeUsage Less(const NodeUsage& a, const NodeUsage& b) {
  return {Sum(a.resources, Times(b.resources, -1)), a.pod_count - b.pod_count};
}

}  // namespace

bool HasRoomFor(const NodeFree& left, const NodeUsage& usage) {
  return CountThatFits(left.free, usage.resources, 1) == 1 && left.pods_free >= usage.pod_count;
}

NodeFree Beside(NodeFree left, const NodeUsage& usage) {
  left.free = Left(left.free, usage.resources);
  if (left.pods_free != kPodsUnlimited) {
    left.pods_free = std::max<int64_t>(0, left.pods_free - usage.pod_count);
  }
  return left;
}

NodeLedger::NodeLedger(std::vector<std::string> levels, bool is_one_machine)
    : is_one_machine_(is_one_machine), domains_(std::move(levels)), groups_by_domain_(1) {}

NodeIndex NodeLedger::IndexOf(const std::string& name) {
  const auto [entry, is_new] = index_by_name_.try_emplace(
      name, vacant_.empty() ? static_cast<NodeIndex>(nodes_.size()) : vacant_.back());
  if (!is_new) {
    return entry->second;
  }
  if (vacant_.empty()) {
    nodes_.emplace_back();
  } else {
    vacant_.pop_back();
  }
  nodes_[entry->second].facts.name = name;
  shapes_.SetFacts(entry->second, nodes_[entry->second].facts);
  return entry->second;
}

void NodeLedger::ForgetIfGone(NodeIndex node) {
  LedgerNode& entry = nodes_[node];
  const NodeUsage nothing;
  if (entry.is_known || entry.staying != nothing || entry.leaving != nothing ||
      entry.claimed != nothing || index_by_name_.erase(entry.facts.name) == 0) {
    return;
  }
  entry = LedgerNode{};
  vacant_.push_back(node);
}

std::optional<NodeIndex> NodeLedger::Find(const std::string& name) const {
  const auto found = index_by_name_.find(name);
  return found == index_by_name_.end() ? std::nullopt : std::optional(found->second);
}

void NodeLedger::SetNode(const SnapshotNode& node) {
  const NodeIndex index = IndexOf(node.name);
  LedgerNode& entry = nodes_[index];
  if (entry.is_known && !domains_.IsSame(entry.facts.labels, node.labels)) {
    ++domains_version_;
  }
  TakeOut(index);
  entry.facts = node;
  entry.facts.used = {};
  entry.facts.pod_count = 0;
  entry.strangers = {node.used, node.pod_count};
  entry.is_known = true;
  shapes_.SetFacts(index, entry.facts);
  PutIn(index);
}

// What is held of it stays noted: pods may outlive their node's object, and the node may come back.
void NodeLedger::RemoveNode(const std::string& name) {
  const auto found = index_by_name_.find(name);
  if (found == index_by_name_.end()) {
    return;
  }
  TakeOut(found->second);
  ++domains_version_;
  LedgerNode& entry = nodes_[found->second];
  entry.facts = SnapshotNode{};
  entry.facts.name = name;
  entry.strangers = {};
  shapes_.SetFacts(found->second, entry.facts);
  ForgetIfGone(found->second);
}

void NodeLedger::SetStrangers(const std::string& node, const NodeUsage& usage) {
  const auto found = index_by_name_.find(node);
  if (found == index_by_name_.end() || !nodes_[found->second].is_known) {
    return;
  }
  nodes_[found->second].strangers = usage;
  Recount(found->second);
}

NodeUsage& NodeLedger::PartOf(Holding how, LedgerNode* node) {
  return how == Holding::kStaying   ? node->staying
         : how == Holding::kLeaving ? node->leaving
                                    : node->claimed;
}

void NodeLedger::Hold(NodeIndex node, Holding how, const NodeUsage& usage) {
  LedgerNode& entry = nodes_[node];
  PartOf(how, &entry) = Added(PartOf(how, &entry), usage);
  Recount(node);
}

void NodeLedger::Move(NodeIndex node, Holding from, Holding to, const NodeUsage& usage) {
  LedgerNode& entry = nodes_[node];
  PartOf(from, &entry) = Less(PartOf(from, &entry), usage);
  PartOf(to, &entry) = Added(PartOf(to, &entry), usage);
  Recount(node);
}

void NodeLedger::Release(NodeIndex node, Holding how, const NodeUsage& usage) {
  LedgerNode& entry = nodes_[node];
  PartOf(how, &entry) = Less(PartOf(how, &entry), usage);
  Recount(node);
}

ShapeIndex NodeLedger::AddShape(const PodClass& pod_class) {
  const ShapeCounts::Added added = shapes_.Add(pod_class);
  const NodeFree nothing;
  for (NodeIndex node = 0; added.is_new && node < nodes_.size(); ++node) {
    const LedgerNode& entry = nodes_[node];
    shapes_.Count(added.shape,
                  {node, entry.domain, &entry.facts, nothing, entry.now, nothing, entry.empty},
                  domains_);
  }
  return added.shape;
}

NodeFree NodeLedger::FreeBeside(const LedgerNode& node, const NodeUsage& used) const {
  if (!node.is_known || node.facts.state != NodeState::kOpen) {
    return {};
  }
  return {Left(node.facts.allocatable, used.resources),
          node.facts.pod_count_max == 0
              ? kPodsUnlimited
              : std::max<int64_t>(0, node.facts.pod_count_max - used.pod_count)};
}

NodeFree NodeLedger::FreeBesideLeaving(NodeIndex node) const {
  const LedgerNode& entry = nodes_[node];
  return FreeBeside(entry, Added(Added(entry.strangers, entry.staying), entry.leaving));
}

NodeFree NodeLedger::FreeOfStaying(NodeIndex node) const {
  const LedgerNode& entry = nodes_[node];
  return FreeBeside(entry, Added(entry.strangers, entry.staying));
}

NodeLedger::NodeKind NodeLedger::KindOf(const SnapshotNode& facts) {
  return {facts.state, facts.suspicion, facts.taints, facts.allocatable, facts.pod_count_max};
}

// Before the node changes in more than in what is held of it.
void NodeLedger::TakeOut(NodeIndex node) {
  LedgerNode& entry = nodes_[node];
  if (!entry.is_known) {
    return;
  }
  LeaveGroup(node);
  const auto kind = kinds_.find(KindOf(entry.facts));
  if (--kind->second.second == 0) {
    kinds_.erase(kind);
  }
  free_in_all_ = Sum(free_in_all_, Times(WithoutPorts(entry.now.free), -1));
  offered_in_all_ = Sum(offered_in_all_, Times(entry.facts.allocatable, -1));
  const NodeFree nothing;
  shapes_.Change({node, entry.domain, &entry.facts, entry.now, nothing, entry.empty, nothing},
                 domains_);
  domains_.Leave(entry.domain);
  suspect_count_ -= entry.facts.suspicion > 0 ? 1 : 0;
  entry.now = {};
  entry.empty = {};
  entry.domain = kWholeCluster;
  entry.is_known = false;
  Note(node);
}

void NodeLedger::PutIn(NodeIndex node) {
  LedgerNode& entry = nodes_[node];
  entry.domain = domains_.Join(entry.facts.labels);
  if (groups_by_domain_.size() < domains_.index_end()) {
    groups_by_domain_.resize(domains_.index_end());
  }
  const auto kind = kinds_.try_emplace(KindOf(entry.facts), kinds_made_, 0).first;
  if (++kind->second.second == 1) {
    ++kinds_made_;
  }
  entry.kind = kind->second.first;
  offered_in_all_ = Sum(offered_in_all_, entry.facts.allocatable);
  suspect_count_ += entry.facts.suspicion > 0 ? 1 : 0;
  JoinGroup(node);
  Recount(node);
}

// What the node has left is what it offers, less what is held.
void NodeLedger::Recount(NodeIndex node) {
  LedgerNode& entry = nodes_[node];
  if (!entry.is_known) {
    Note(node);
    return;
  }
  NodeFree now = Beside(FreeBesideLeaving(node), entry.claimed);
  NodeFree empty = FreeBeside(entry, entry.strangers);
  if (now == entry.now && empty == entry.empty) {
    Note(node);
    return;
  }
  shapes_.Change({node, entry.domain, &entry.facts, entry.now, now, entry.empty, empty}, domains_);
  free_in_all_ = Sum(free_in_all_, WithoutPorts(Sum(now.free, Times(entry.now.free, -1))));
  LeaveGroup(node);
  entry.now = std::move(now);
  entry.empty = std::move(empty);
  JoinGroup(node);
  Note(node);
}

void NodeLedger::JoinGroup(NodeIndex node) {
  std::vector<NodeIndex>& group =
      groups_by_domain_[nodes_[node].domain][{nodes_[node].kind, nodes_[node].now}];
  group.insert(std::lower_bound(group.begin(),
                                group.end(),
                                node,
                                [&](NodeIndex a, NodeIndex b) { return NameOf(a) < NameOf(b); }),
               node);
}

void NodeLedger::LeaveGroup(NodeIndex node) {
  Groups& groups = groups_by_domain_[nodes_[node].domain];
  const auto group = groups.find({nodes_[node].kind, nodes_[node].now});
  group->second.erase(std::lower_bound(
      group->second.begin(), group->second.end(), node, [&](NodeIndex a, NodeIndex b) {
        return NameOf(a) < NameOf(b);
      }));
  if (group->second.empty()) {
    groups.erase(group);
  }
}

void NodeLedger::Note(NodeIndex node) {
  if (changes_.size() == kChangesMax) {
    changes_begin_ += changes_.size();
    changes_.clear();
  }
  changes_.push_back(node);
}

std::optional<std::vector<NodeIndex>> NodeLedger::ChangedSince(uint64_t version) const {
  if (version < changes_begin_) {
    return std::nullopt;
  }
  std::vector<NodeIndex> changed(
      changes_.begin() + static_cast<std::ptrdiff_t>(version - changes_begin_), changes_.end());
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  return changed;
}

}  // namespace lockstep::control
