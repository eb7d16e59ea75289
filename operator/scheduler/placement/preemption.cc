#include "operator/scheduler/placement/preemption.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/plural.h"
#include "common/base/saturating.h"
#include "operator/scheduler/queue/amount_text.h"

namespace lockstep::control {
namespace {

using Gangs = std::vector<const GangRecord*>;

const QueueSpec& SpecOf(const ClusterState& state, const GangRecord& gang) {
  return state.queues().SpecOf(*gang.queue);
}

// Whether gangs of the queue may go for this one, by what everybody holds at this moment. Those of
// one that is not served run on, for nobody knows how much of what they hold is borrowed.
bool MayGive(const ClusterState& state, const GangRecord& gang, QueueIndex queue) {
  if (queue == *gang.queue) {
    const auto lowest = state.LowestPriorityIn(queue);
    return SpecOf(state, gang).preempts_lower_priority && lowest && *lowest < gang.request.priority;
  }
  return SpecOf(state, gang).reclaims && state.LowestPriorityIn(queue).has_value() &&
         state.queues().MayReclaim(*gang.queue, queue, gang.total) &&
         state.WhyUnserved(state.queues().SpecOf(queue).name) == nullptr;
}

// Whether this one may go now.
bool MayGo(const ClusterState& state, const GangRecord& gang, const GangRecord& victim) {
  return MayGive(state, gang, *victim.queue) &&
         (victim.queue != gang.queue || victim.request.priority < gang.request.priority);
}

// Counting, before anybody is looked at: free and reclaimable, resource by resource.
std::optional<std::string> BrokenReclaimBound(const ClusterState& state, const GangRecord& gang) {
  ResourceVector leaving;
  for (const GangRecord* const one : state.leaving()) {
    leaving = Sum(leaving, one->total);
  }
  for (const NamedAmount& needed : gang.total.All()) {
    const int64_t free = state.nodes().free_in_all().AmountOf(needed.name);
    int64_t reclaimable = 0;
    for (QueueIndex queue = 1; queue < state.queues().size(); ++queue) {
      if (MayGive(state, gang, queue)) {
        reclaimable = AddSaturated(reclaimable,
                                   state.queues().ReclaimableMax(*gang.queue, queue, needed.name));
      }
    }
    const int64_t found =
        AddSaturated(AddSaturated(free, leaving.AmountOf(needed.name)), reclaimable);
    if (found < needed.amount) {
      const Figures figures = FiguresOf(needed.name, needed.amount, free);
      return "with " + figures.found + " free on nodes and at most " +
             FiguresOf(needed.name, needed.amount, found - free).found +
             " available from other jobs, " + AmountIs(needed.name, needed.amount - found) +
             " missing";
    }
  }
  return std::nullopt;
}

// The search for victims of one gang.
class VictimSearch {
 public:
  VictimSearch(Statement* statement, const GangRecord& gang, int64_t search_steps_max)
      : statement_(*statement),
        state_(statement->state()),
        gang_(gang),
        search_steps_max_(search_steps_max),
        begin_(statement->checkpoint()) {}

  PreemptionResult Run() {
    Collect();
    for (const GangRecord* const leaving : state_.leaving()) {
      statement_.Vacate(*leaving);
      leaving_.push_back(leaving);
    }
    if (TryPlace() || EvictUntilPlaced()) {
      Preemption found;
      found.pods = *pods_;
      found.victims = VictimsThatCannotStay();
      result_.preemption = std::move(found);
      result_.look_again_at.reset();
    } else {
      result_.why_not = WhyNot();
    }
    for (const GangRecord* const one : leaving_) {
      statement_.Reoccupy(*one);
    }
    for (const Evicted& one : evictions_) {
      if (!one.is_spared) {
        statement_.Reoccupy(*one.victim);
      }
    }
    statement_.RollBack(begin_);
    return std::move(result_);
  }

 private:
  std::string WhyNot() const {
    std::string text;
    if (!victims_.empty()) {
      text = "the job would not fit even if " +
             Plural(static_cast<int64_t>(evictions_.size()), "other job") + " were evicted for it";
    }
    if (result_.look_again_at) {
      text += (text.empty() ? "" : "; ") +
              std::string("minRuntimeSeconds protects other jobs from eviction until ") +
              SecondOf(*result_.look_again_at);
    }
    return text;
  }

  static std::string SecondOf(WallTime when) {
    return FormatRfc3339(std::chrono::ceil<std::chrono::seconds>(when)).substr(0, 19) + "Z";
  }

  // Who may be evicted, and from when on somebody else may.
  void Collect() {
    for (QueueIndex queue = 1; queue < state_.queues().size(); ++queue) {
      if (!MayGive(state_, gang_, queue)) {
        continue;
      }
      const auto min_runtime = state_.queues().SpecOf(queue).min_runtime;
      for (const GangRecord* const one : state_.RunningIn(queue)) {
        if (!one->request.is_preemptible || one->is_promised ||
            (queue == *gang_.queue && one->request.priority >= gang_.request.priority)) {
          continue;
        }
        const WallTime from = one->run.started_at + min_runtime;
        if (from > statement_.now()) {
          result_.look_again_at = std::min(result_.look_again_at.value_or(from), from);
          continue;
        }
        victims_.push_back(one);
      }
    }
    const WallTime now = statement_.now();
    std::sort(victims_.begin(), victims_.end(), [now](const auto* a, const auto* b) {
      const auto order = [now](const GangRecord& gang) {
        return std::tuple(gang.request.priority, WorkLost(gang, now));
      };
      const auto order_a = order(*a);
      const auto order_b = order(*b);
      return order_a != order_b ? order_a < order_b : IsOlder(*b, *a);
    });
  }

  // Whether nothing is in the way any more: a place is found, and the quota allows it.
  bool TryPlace() {
    if (!MayFitNow(state_.nodes(), gang_) || !state_.queues().Allows(*gang_.queue, gang_.total)) {
      return false;
    }
    PlaceResult placed = PlaceGang(state_.nodes(), gang_, {nullptr, true, search_steps_max_});
    pods_ = std::move(placed.pods);
    return pods_.has_value();
  }

  // One victim after the other, until there is a place. Where counts do not tell, a search that
  // failed is tried again when twice as many have gone.
  bool EvictUntilPlaced() {
    const bool lacks_room = !MayFitNow(state_.nodes(), gang_);
    const Gangs order = lacks_room ? ByNode() : victims_;
    std::size_t next_try = 1;
    for (const GangRecord* const victim : order) {
      if (!MayGo(state_, gang_, *victim)) {
        continue;  // its queue holds no more than its nominal amounts now
      }
      evictions_.push_back({victim, statement_.checkpoint()});
      statement_.Do({OperationKind::kEvict, victim->request.name, gang_.request.name});
      statement_.Vacate(*victim);
      if (IsCountable(gang_) || evictions_.size() >= next_try) {
        if (TryPlace()) {
          return true;
        }
        next_try = 2 * evictions_.size();
      }
    }
    return !evictions_.empty() && TryPlace();
  }

  struct NodeCost {
    NodeIndex node = 0;
    int64_t cost = 0;
    NodeFree room;  // with all of them gone
    Gangs victims;  // in the order of victims_
    int64_t pods = 0;
    int64_t price = 0;  // of a pod's place; thousandths
  };

  // Nodes with victims on them, the cheapest place for a pod first.
  std::vector<NodeCost> PricedNodes() const {
    std::map<NodeIndex, NodeCost> by_node;
    for (const GangRecord* const victim : victims_) {
      const int64_t cost = WorkLost(*victim, statement_.now()) + 1;
      for (const NodeHold& hold : victim->holds) {
        const auto [entry, is_new] = by_node.try_emplace(hold.node);
        NodeCost& node = entry->second;
        if (is_new) {
          node = {hold.node, 0, state_.nodes().FreeNow(hold.node), {}};
        }
        node.cost += cost;
        node.room.free = GivenBack(node.room.free, hold.usage.resources);
        node.room.pods_free += node.room.pods_free == kPodsUnlimited ? 0 : hold.usage.pod_count;
        if (node.victims.empty() || node.victims.back() != victim) {
          node.victims.push_back(victim);
        }
      }
    }
    std::vector<NodeCost> nodes;
    for (auto& [index, node] : by_node) {
      for (std::size_t c = 0; c < gang_.classes.size(); ++c) {
        if (state_.nodes().shapes().Accepts(gang_.shapes[c], index)) {
          node.pods += ShapeCounts::PodsOn(node.room, gang_.classes[c].request);
        }
      }
      node.price = node.pods == 0 ? kPriceless : node.cost * 1000 / node.pods;
      nodes.push_back(std::move(node));
    }
    std::sort(nodes.begin(), nodes.end(), [&](const NodeCost& a, const NodeCost& b) {
      return std::tie(a.price, state_.nodes().NameOf(a.node)) <
             std::tie(b.price, state_.nodes().NameOf(b.node));
    });
    return nodes;
  }

  // Victims by the nodes that they are on. Where the gang must be in one domain, those of the
  // domain first in which room for it costs least.
  Gangs ByNode() const {
    std::vector<NodeCost> nodes = PricedNodes();
    const auto level = state_.nodes().domains().LevelOf(gang_.request.topology.required);
    if (level) {
      std::map<std::string, std::pair<int64_t, int64_t>> by_domain;  // cost and pods so far
      const auto path_of = [&](const NodeCost& node) {
        const auto domain =
            state_.nodes().domains().AncestorAt(state_.nodes().DomainOf(node.node), *level);
        return domain ? state_.nodes().domains().PathOf(*domain) : std::string();
      };
      for (const NodeCost& node : nodes) {
        auto& [cost, pods] = by_domain[path_of(node)];
        if (pods < gang_.pod_count && node.pods > 0) {
          cost += node.cost;
          pods += node.pods;
        }
      }
      const auto standing = [&](const NodeCost& node) {
        const std::string path = path_of(node);
        const auto& [cost, pods] = by_domain.at(path);
        return std::tuple(path.empty() || pods < gang_.pod_count ? kPriceless : cost, path);
      };
      std::stable_sort(nodes.begin(), nodes.end(), [&](const NodeCost& a, const NodeCost& b) {
        return standing(a) < standing(b);
      });
    }
    Gangs gangs;
    std::set<const GangRecord*> listed;
    for (const NodeCost& node : nodes) {
      for (const GangRecord* const victim : node.victims) {
        if (listed.insert(victim).second) {
          gangs.push_back(victim);
        }
      }
    }
    return gangs;
  }

  // Whoever can stay beside the place that was found stays, the most valuable first.
  std::vector<std::string> VictimsThatCannotStay() {
    statement_.Do({OperationKind::kStart, gang_.request.name, {}, *pods_});
    const WallTime now = statement_.now();
    std::sort(evictions_.begin(), evictions_.end(), [now](const Evicted& a, const Evicted& b) {
      const auto value = [now](const GangRecord& gang) {
        return std::tuple(gang.request.priority, WorkLost(gang, now));
      };
      const auto value_a = value(*a.victim);
      const auto value_b = value(*b.victim);
      return value_a != value_b ? value_a > value_b : IsOlder(*a.victim, *b.victim);
    });
    std::vector<std::string> victims;
    for (Evicted& one : evictions_) {
      if (HasRoom(*one.victim) && state_.queues().Allows(*one.victim->queue, one.victim->total)) {
        statement_.Reoccupy(*one.victim);
        statement_.TakeBack(one.position);
        one.is_spared = true;
      } else {
        victims.push_back(one.victim->request.name);
      }
    }
    std::sort(victims.begin(), victims.end());
    return victims;
  }

  // Whether what the victim holds is free beside the gang. Where its node takes no pods, the gang
  // is not in its way.
  bool HasRoom(const GangRecord& victim) const {
    return std::ranges::all_of(SumByNode(victim.holds),
                               [&](const auto& one) { return HasRoomOn(one.first, one.second); });
  }

  bool HasRoomOn(NodeIndex node, const NodeUsage& needed) const {
    const bool is_open =
        state_.nodes().is_known(node) && state_.nodes().FactsOf(node).state == NodeState::kOpen;
    return !is_open || HasRoomFor(state_.nodes().FreeNow(node), needed);
  }

  struct Evicted {
    const GangRecord* victim = nullptr;
    std::size_t position = 0;  // in the statement
    bool is_spared = false;
  };

  static constexpr int64_t kPriceless = std::numeric_limits<int64_t>::max();

  Statement& statement_;
  const ClusterState& state_;
  const GangRecord& gang_;
  int64_t search_steps_max_;
  std::size_t begin_;
  Gangs victims_;
  Gangs leaving_;
  std::vector<Evicted> evictions_;
  std::optional<PlacedPods> pods_;
  PreemptionResult result_;
};

}  // namespace

bool MayPreempt(const ClusterState& state, const GangRecord& gang) {
  return gang.request.may_preempt && gang.queue.has_value() &&
         (SpecOf(state, gang).preempts_lower_priority || SpecOf(state, gang).reclaims);
}

int64_t WorkLost(const GangRecord& victim, WallTime now) {
  const WallTime from = std::max(victim.run.started_at, victim.run.saved_at);
  const int64_t seconds =
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(now - from).count());
  const int64_t size = victim.total.gpu_count > 0 ? victim.total.gpu_count : victim.pod_count;
  return size * seconds * (1 + victim.run.restart_count);
}

PreemptionResult FindVictims(Statement* statement,
                             const GangRecord& gang,
                             int64_t search_steps_max) {
  if (!MayFitEmpty(statement->state().nodes(), gang)) {
    return {std::nullopt, {}, true, std::nullopt};
  }
  if (auto broken = BrokenReclaimBound(statement->state(), gang)) {
    return {std::nullopt, *std::move(broken), true, std::nullopt};
  }
  return VictimSearch(statement, gang, search_steps_max).Run();
}

}  // namespace lockstep::control
