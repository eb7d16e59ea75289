// Which nodes a plan looks at: groups of equal ones, and of each no more than may be of use.

#include <algorithm>
#include <iterator>

#include "operator/scheduler/nodes/node_ledger.h"

namespace lockstep::control {
namespace {

// Which of the classes the node lets in, as bits. Choice: classes from the 64th on share a bit,
// which tells fewer nodes apart than there are, so all of them are looked at.
uint64_t AcceptedBy(const SnapshotNode& node, const std::vector<PodClass>& classes) {
  uint64_t bits = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    bits |= Accepts(node, classes[i]) ? uint64_t{1} << std::min<std::size_t>(i, 63) : 0;
  }
  return bits;
}

bool AsksForLabels(const std::vector<PodClass>& classes) {
  return std::any_of(classes.begin(), classes.end(), [](const PodClass& pod_class) {
    return !pod_class.node_selector.empty() || !pod_class.node_affinity->empty();
  });
}

int64_t PodCountOf(const std::vector<PodClass>& classes) {
  int64_t count = 0;
  for (const PodClass& pod_class : classes) {
    count += static_cast<int64_t>(pod_class.pods.size());
  }
  return count;
}

// Whether amounts let a pod of some class in; labels and taints aside.
bool HoldsAny(const NodeFree& room, const std::vector<PodClass>& classes) {
  return std::any_of(classes.begin(), classes.end(), [&](const PodClass& pod_class) {
    return ShapeCounts::PodsOn(room, pod_class.request) > 0;
  });
}

}  // namespace

struct NodeLedger::Collector {
  const RoomQuery& query;
  bool asks_for_labels = false;
  int64_t nodes_of_group_max = 0;
  bool is_apart_by_host = false;
  std::optional<std::size_t> apart_level{};
  std::map<DomainIndex, Groups> overridden{};  // groups of what nodes have left by the query
  std::map<DomainIndex, std::vector<NodeIndex>> suspects{};  // that may be taken
  std::vector<NodeRoom> rooms{};

  // Of which rooms only one may be taken; -1: of none. Empty: the node may not be taken at all.
  std::optional<int32_t> ApartOf(NodeIndex node, const NodeLedger& ledger) const {
    if (query.apart.empty()) {
      return -1;
    }
    if (is_apart_by_host) {
      return static_cast<int32_t>(node);
    }
    const auto domain = apart_level
                            ? ledger.domains().AncestorAt(ledger.DomainOf(node), *apart_level)
                            : std::nullopt;
    return domain ? std::optional(static_cast<int32_t>(*domain)) : std::nullopt;
  }

  void Add(NodeIndex node, const NodeFree& room, const NodeLedger& ledger) {
    if (const auto apart = ApartOf(node, ledger)) {
      rooms.push_back({&ledger.FactsOf(node), room.free, room.pods_free, 1, *apart});
      rooms.back().suspected = SuspectedOf(node);
    }
  }

  int64_t SuspectedOf(NodeIndex node) const {
    if (query.suspects == nullptr) {
      return 0;
    }
    const auto found = query.suspects->find(node);
    return found == query.suspects->end() ? 0 : found->second;
  }

  // Whether the query knows more of the node than the group that it is in.
  bool IsApartFromGroup(NodeIndex node) const {
    return (query.overrides != nullptr && query.overrides->contains(node)) ||
           (query.suspects != nullptr && query.suspects->contains(node));
  }
};

// Nodes that differ in labels only; those that the same classes accept are alike.
void NodeLedger::CollectLabelled(const NodeFree& room,
                                 const std::vector<NodeIndex>& nodes,
                                 Collector* collector) const {
  const auto& classes = collector->query.classes;
  std::map<uint64_t, int64_t> taken;  // by who is let in
  for (const NodeIndex node : nodes) {
    const uint64_t accepted = AcceptedBy(nodes_[node].facts, classes);
    int64_t& count = taken[accepted];
    if (accepted != 0 && (count < collector->nodes_of_group_max || classes.size() >= 64)) {
      ++count;
      collector->Add(node, room, *this);
    }
  }
}

// `leaves_out`: nodes for which the query has other amounts.
void NodeLedger::CollectGroups(const Groups& groups, bool leaves_out, Collector* collector) const {
  const auto& classes = collector->query.classes;
  for (const auto& [key, all] : groups) {
    const SnapshotNode& first = nodes_[all.front()].facts;
    if (first.suspicion > collector->query.suspicion_max || !HoldsAny(key.room, classes)) {
      continue;
    }
    const bool is_filtered =
        leaves_out && (!collector->overridden.empty() || collector->query.suspects != nullptr);
    std::vector<NodeIndex> left;
    if (is_filtered) {
      std::copy_if(all.begin(), all.end(), std::back_inserter(left), [&](NodeIndex node) {
        return !collector->IsApartFromGroup(node);
      });
    }
    const std::vector<NodeIndex>& nodes = is_filtered ? left : all;
    if (collector->asks_for_labels) {
      CollectLabelled(key.room, nodes, collector);
    } else if (AcceptedBy(first, classes) != 0) {
      const auto count =
          std::min(static_cast<int64_t>(nodes.size()), collector->nodes_of_group_max);
      std::for_each(nodes.begin(), nodes.begin() + count, [&](NodeIndex node) {
        collector->Add(node, key.room, *this);
      });
    }
  }
}

void NodeLedger::CollectDomain(DomainIndex domain, Collector* collector) const {
  const std::size_t begin = collector->rooms.size();
  CollectGroups(groups_by_domain_[domain], /*leaves_out=*/true, collector);
  if (const auto found = collector->overridden.find(domain); found != collector->overridden.end()) {
    CollectGroups(found->second, /*leaves_out=*/false, collector);
  }
  if (const auto found = collector->suspects.find(domain); found != collector->suspects.end()) {
    for (const NodeIndex node : found->second) {
      const auto* const overrides = collector->query.overrides;
      const bool is_overridden = overrides != nullptr && overrides->contains(node);
      const NodeFree& room = is_overridden ? overrides->at(node) : nodes_[node].now;
      if (HoldsAny(room, collector->query.classes)) {
        collector->Add(node, room, *this);
      }
    }
  }
  std::sort(collector->rooms.begin() + static_cast<std::ptrdiff_t>(begin),
            collector->rooms.end(),
            [](const NodeRoom& a, const NodeRoom& b) { return a.node->name < b.node->name; });
  for (const auto& [value, child] : domains_.ChildrenOf(domain)) {
    CollectDomain(child, collector);
  }
}

std::vector<NodeRoom> NodeLedger::RoomsFor(const RoomQuery& query) const {
  Collector collector{query, AsksForLabels(query.classes), PodCountOf(query.classes)};
  collector.rooms.reserve(16);
  collector.is_apart_by_host = query.apart == kHostLevel;
  collector.apart_level = domains_.LevelOf(query.apart);
  if (collector.apart_level) {
    collector.nodes_of_group_max = 1;  // a group is within one domain, which takes one pod
  }
  if (query.suspects != nullptr) {
    for (const auto& [node, suspected] : *query.suspects) {
      if (nodes_[node].is_known &&
          nodes_[node].facts.suspicion + suspected <= query.suspicion_max) {
        collector.suspects[nodes_[node].domain].push_back(node);
      }
    }
  }
  if (query.overrides != nullptr) {
    for (const auto& [node, room] : *query.overrides) {
      if (nodes_[node].is_known && collector.SuspectedOf(node) == 0) {
        collector.overridden[nodes_[node].domain][{nodes_[node].kind, room}].push_back(node);
      }
    }
  }
  for (auto& [domain, groups] : collector.overridden) {
    for (auto& [key, nodes] : groups) {
      std::sort(nodes.begin(), nodes.end(), [&](NodeIndex a, NodeIndex b) {
        return NameOf(a) < NameOf(b);
      });
    }
  }
  CollectDomain(query.domain, &collector);
  return std::move(collector.rooms);
}

std::optional<NodeIndex> NodeLedger::TightestHolding(const RoomQuery& query) const {
  ResourceVector total;
  for (const PodClass& pod_class : query.classes) {
    total = Sum(total, Times(pod_class.request, static_cast<int64_t>(pod_class.pods.size())));
  }
  const int64_t pod_count = PodCountOf(query.classes);
  const auto suspected_of = [&](NodeIndex node) { return Collector{query}.SuspectedOf(node); };
  // All on one node is one pod that asks for everything, and accepts what all accept.
  std::optional<NodeIndex> best;
  NodeRoom room_of_best;
  for (DomainIndex domain = 0; domain < groups_by_domain_.size(); ++domain) {
    if (query.level && !groups_by_domain_[domain].empty() &&
        !domains_.AncestorAt(domain, *query.level)) {
      continue;
    }
    for (const auto& [key, nodes] : groups_by_domain_[domain]) {
      if (key.room.pods_free < pod_count || CountThatFits(key.room.free, total, 1) < 1) {
        continue;
      }
      const auto holds = [&](NodeIndex node) {
        const SnapshotNode& facts = nodes_[node].facts;
        const bool is_overridden = query.overrides != nullptr && query.overrides->contains(node);
        return !is_overridden && facts.suspicion + suspected_of(node) <= query.suspicion_max &&
               std::all_of(query.classes.begin(), query.classes.end(), [&](const auto& one) {
                 return Accepts(facts, one);
               });
      };
      std::optional<NodeIndex> found;  // the first of those that are suspected least
      for (auto node = nodes.begin(); node != nodes.end() && (!found || suspected_of(*found) > 0);
           ++node) {
        if (holds(*node) && (!found || suspected_of(*node) < suspected_of(*found))) {
          found = *node;
        }
      }
      if (!found) {
        continue;
      }
      NodeRoom room{&nodes_[*found].facts, key.room.free, key.room.pods_free};
      room.suspected = suspected_of(*found);
      if (!best || IsBetterAlone(room, room_of_best, total)) {
        best = found;
        room_of_best = std::move(room);
      }
    }
  }
  return best;
}

RoomSurvey NodeLedger::Survey(const std::vector<PodClass>& classes, std::string_view apart) const {
  RoomSurvey survey;
  survey.is_one_machine = is_one_machine_;
  const RoomQuery query{classes, kWholeCluster, nullptr, apart};
  Collector collector{query};
  collector.is_apart_by_host = apart == kHostLevel;
  collector.apart_level = domains_.LevelOf(apart);
  const bool asks_for_labels = AsksForLabels(classes);
  for (const Groups& groups : groups_by_domain_) {
    for (const auto& [key, nodes] : groups) {
      const bool is_open = nodes_[nodes.front()].facts.state == NodeState::kOpen;
      std::vector<NodeRoom>& rooms = is_open ? survey.open : survey.closed;
      const bool is_one = is_open && !asks_for_labels && !collector.is_apart_by_host;
      std::map<uint64_t, std::size_t> room_by_accepted;
      for (const NodeIndex node : nodes) {
        const auto domain = collector.ApartOf(node, *this);
        if (!domain) {
          continue;  // pods that stand apart have no use for it
        }
        const uint64_t accepted =
            asks_for_labels ? AcceptedBy(nodes_[node].facts, classes) : uint64_t{0};
        const auto [found, is_new] = room_by_accepted.try_emplace(accepted, rooms.size());
        if (is_new || collector.is_apart_by_host) {
          rooms.push_back({&nodes_[node].facts, key.room.free, key.room.pods_free, 1, *domain});
        } else {
          ++rooms[found->second].twins;
        }
        if (is_one || !is_open) {
          rooms.back().twins = static_cast<int64_t>(nodes.size());
          break;
        }
      }
    }
  }
  return survey;
}

}  // namespace lockstep::control
