#include "operator/scheduler/turn.h"

#include <algorithm>
#include <utility>

#include "common/base/plural.h"

namespace lockstep::control {
namespace {

// The search of a gang of several shapes ends sooner here than where it is placed: the question is
// asked for every gang ahead.
constexpr int64_t kCheckStepsMax = 20'000;
constexpr int64_t kPlaceStepsMax = 200'000;

// Places tried for one gang that spare more and more of those ahead, and for all of a round.
// Choice: the second mostly does, and a round stays within milliseconds.
constexpr int kPlansMax = 4;
constexpr int kPlansOfRoundMax = 16;

NodeFree Beside(NodeFree room, const NodeUsage& used) {
  room.free = Left(room.free, used.resources);
  if (room.pods_free != kPodsUnlimited) {
    room.pods_free = std::max<int64_t>(0, room.pods_free - used.pod_count);
  }
  return room;
}

NodeFree Smaller(const NodeFree& a, const NodeFree& b) {
  // What is in both: all of `a` but what it has more.
  return {Left(a.free, Left(a.free, b.free)), std::min(a.pods_free, b.pods_free)};
}

std::map<NodeIndex, NodeUsage> ByNode(const std::vector<NodeHold>& holds) {
  std::map<NodeIndex, NodeUsage> by_node;
  for (const NodeHold& hold : holds) {
    NodeUsage& sum = by_node[hold.node];
    sum = {Sum(sum.resources, hold.usage.resources), sum.pod_count + hold.usage.pod_count};
  }
  return by_node;
}

// How many pods of the gang fit the node less, when all have ended that are older than it, than if
// nothing ran at all.
int64_t LostOn(const ClusterState& state, const GangRecord& gang, NodeIndex node) {
  if (!state.nodes().shapes().Accepts(gang.shapes.front(), node)) {
    return 0;
  }
  const ResourceVector& request = gang.classes.front().request;
  return ShapeCounts::PodsOn(state.nodes().FreeOfStrangers(node), request) -
         ShapeCounts::PodsOn(state.FreeLater(node, gang), request);
}

template <typename Add>
void ForEachDomain(const NodeLedger& nodes, NodeIndex node, const Add& add) {
  for (DomainIndex domain = nodes.DomainOf(node); domain != kWholeCluster;
       domain = nodes.domains().ParentOf(domain)) {
    add(domain);
  }
  add(kWholeCluster);
}

}  // namespace

const LaterCounts::Counts& LaterCounts::Refreshed(const ClusterState& state,
                                                  const GangRecord& gang) {
  const NodeLedger& nodes = state.nodes();
  Counts& counts = by_gang_[gang.request.name];
  auto changed = counts.serial != gang.serial || counts.topology != nodes.domains_version()
                     ? std::nullopt
                     : nodes.ChangedSince(counts.version);
  if (!changed) {
    counts = {gang.serial, nodes.domains_version(), 0, {}, {}};
    changed = state.NodesOfYounger(gang);
  }
  for (const NodeIndex node : *changed) {
    const int64_t lost = LostOn(state, gang, node);
    const auto entry = counts.lost_by_node.try_emplace(node, 0).first;
    const int64_t before = std::exchange(entry->second, lost);
    ForEachDomain(
        nodes, node, [&](DomainIndex domain) { counts.lost_by_domain[domain] += lost - before; });
    if (lost == 0) {
      counts.lost_by_node.erase(entry);
    }
  }
  counts.version = nodes.version();
  return counts;
}

bool LaterCounts::FitsBeside(const ClusterState& state,
                             const GangRecord& gang,
                             const std::vector<NodeHold>& taken) {
  return DomainFor(state, gang, taken).has_value();
}

std::optional<DomainIndex> LaterCounts::DomainFor(const ClusterState& state,
                                                  const GangRecord& gang,
                                                  const std::vector<NodeHold>& taken) {
  const Counts& counts = Refreshed(state, gang);
  const NodeLedger& nodes = state.nodes();
  const ResourceVector& request = gang.classes.front().request;
  std::map<DomainIndex, int64_t> lost;
  for (const auto& [node, usage] : ByNode(taken)) {
    if (!nodes.shapes().Accepts(gang.shapes.front(), node)) {
      continue;
    }
    const NodeFree later = state.FreeLater(node, gang);
    const int64_t fewer =
        ShapeCounts::PodsOn(later, request) - ShapeCounts::PodsOn(Beside(later, usage), request);
    ForEachDomain(nodes, node, [&](DomainIndex domain) { lost[domain] += fewer; });
  }
  for (const DomainIndex domain : DomainsFor(nodes, gang)) {
    const auto in = [domain](const std::map<DomainIndex, int64_t>& counts_of) {
      const auto found = counts_of.find(domain);
      return found == counts_of.end() ? 0 : found->second;
    };
    if (nodes.shapes().FitsEmpty(gang.shapes.front(), domain) - in(counts.lost_by_domain) -
            in(lost) >=
        gang.pod_count) {
      return domain;
    }
  }
  return std::nullopt;
}

void LaterCounts::Trim(const ClusterState& state) {
  for (auto entry = by_gang_.begin(); entry != by_gang_.end();) {
    const GangRecord* const gang = state.Find(entry->first);
    const bool waits = gang != nullptr && gang->state == GangState::kWaiting;
    entry = waits ? std::next(entry) : by_gang_.erase(entry);
  }
}

TurnKeeper::TurnKeeper(const ClusterState& state, LaterCounts* counts)
    : state_(state), counts_(counts), plans_left_(kPlansOfRoundMax) {}

void TurnKeeper::Wait(const GangRecord& gang) {
  if (ahead_.size() <= kAheadMax && MayFitEmpty(state_.nodes(), gang)) {
    ahead_.push_back(&gang);
  }
}

// By a search among what nodes have left when all have ended that are older.
TurnKeeper::Witness TurnKeeper::Search(const GangRecord& waiting, const Uses& beside) const {
  const NodeLedger& nodes = state_.nodes();
  NodeLedger::Overrides overrides;
  for (NodeIndex node = 0; node < nodes.index_end(); ++node) {
    NodeFree later = state_.FreeLater(node, waiting);
    if (const auto found = beside.find(node); found != beside.end()) {
      later = Beside(std::move(later), found->second);
    }
    if (later != nodes.FreeNow(node)) {
      overrides.emplace(node, std::move(later));
    }
  }
  const PlaceResult place =
      PlaceGang(nodes, waiting, {&overrides, /*has_counts=*/false, kCheckStepsMax});
  if (!place.pods) {
    return {false, nodes.version(), {}};
  }
  return {true, nodes.version(), ByNode(state_.HoldsOf(waiting, *place.pods))};
}

// Whether these nodes will have so much left, beside what `beside` takes of them.
bool TurnKeeper::HoldsLater(const GangRecord& waiting, const Uses& uses, const Uses& beside) const {
  return std::all_of(uses.begin(), uses.end(), [&](const auto& one) {
    NodeFree later = state_.FreeLater(one.first, waiting);
    if (const auto found = beside.find(one.first); found != beside.end()) {
      later = Beside(std::move(later), found->second);
    }
    return CountThatFits(later.free, one.second.resources, 1) == 1 &&
           later.pods_free >= one.second.pod_count;
  });
}

const TurnKeeper::Witness& TurnKeeper::WitnessOf(const GangRecord& waiting) {
  const auto [entry, is_new] = witnesses_.try_emplace(&waiting);
  Witness& witness = entry->second;
  const bool is_valid = witness.exists ? HoldsLater(waiting, witness.uses, {})
                                       : witness.version == state_.nodes().version();
  if (is_new || !is_valid) {
    witness = Search(waiting, {});
  }
  return witness;
}

bool TurnKeeper::Fits(const GangRecord& waiting, const std::vector<NodeHold>& beside) {
  if (IsCountable(waiting)) {
    return counts_->FitsBeside(state_, waiting, beside);
  }
  const Witness& witness = WitnessOf(waiting);
  const Uses taken = ByNode(beside);
  if (!witness.exists || HoldsLater(waiting, witness.uses, taken)) {
    return witness.exists;
  }
  Witness other = Search(waiting, taken);
  const bool exists = other.exists;
  if (exists) {
    witnesses_[&waiting] = std::move(other);
  }
  return exists;
}

const GangRecord* TurnKeeper::HinderedBy(const GangRecord& gang, const PlacedPods& pods) {
  if (ahead_.empty()) {
    return nullptr;
  }
  const std::vector<NodeHold> taken = state_.HoldsOf(gang, pods);
  for (const GangRecord* const waiting : ahead_) {
    // Who is older than one that waits has ended when that one's turn comes.
    if (IsOlder(*waiting, gang) && !Fits(*waiting, taken) && Fits(*waiting, {})) {
      return waiting;
    }
  }
  return nullptr;
}

// A place of the one ahead, where it will have one: on nodes that the newcomer could not use now,
// as far as they do.
TurnKeeper::Uses TurnKeeper::UsesLater(const GangRecord& waiting, const GangRecord& newcomer) {
  if (!IsCountable(waiting)) {
    return WitnessOf(waiting).uses;
  }
  const NodeLedger& nodes = state_.nodes();
  const auto domain = counts_->DomainFor(state_, waiting, {});
  const auto level = nodes.domains().LevelOf(waiting.request.topology.required);
  const PodClass& pod_class = waiting.classes.front();
  int64_t missing = domain ? waiting.pod_count : 0;
  Uses uses;
  for (const bool is_usable_now : {false, true}) {
    for (auto node = nodes.by_name().begin(); node != nodes.by_name().end() && missing > 0;
         ++node) {
      const NodeIndex index = node->second;
      const bool is_usable =
          std::any_of(newcomer.classes.begin(), newcomer.classes.end(), [&](const PodClass& one) {
            return ShapeCounts::PodsOn(nodes.FreeNow(index), one.request) > 0;
          });
      const bool is_within =
          !level || nodes.domains().AncestorAt(nodes.DomainOf(index), *level) == domain;
      if (is_usable != is_usable_now || !is_within ||
          !nodes.shapes().Accepts(waiting.shapes.front(), index)) {
        continue;
      }
      const int64_t count = std::min(
          missing, ShapeCounts::PodsOn(state_.FreeLater(index, waiting), pod_class.request));
      if (count > 0) {
        uses[index] = {Times(pod_class.request, count), count};
        missing -= count;
      }
    }
  }
  return uses;
}

PlaceResult TurnKeeper::PlaceInTurn(const GangRecord& gang,
                                    PlacedPods pods,
                                    Unschedulable* refusal) {
  if (ahead_.size() > kAheadMax) {
    *refusal = {Constraint::kQueue,
                "waits behind " + ahead_.front()->request.name + " and " +
                    Plural(static_cast<int64_t>(ahead_.size()) - 1, "other job")};
    return {};
  }
  const GangRecord* hindered = HinderedBy(gang, pods);
  // Perhaps it is only this place that is in the way: others spare a place for those ahead.
  NodeLedger::Overrides spared;
  for (int tried = 1; hindered != nullptr && tried < kPlansMax && plans_left_ > 0; ++tried) {
    --plans_left_;
    for (const auto& [node, usage] : UsesLater(*hindered, gang)) {
      const auto known = spared.find(node);
      const NodeFree now = known == spared.end() ? state_.nodes().FreeNow(node) : known->second;
      spared[node] = Smaller(now, Beside(state_.FreeLater(node, *hindered), usage));
    }
    PlaceResult other = PlaceGang(state_.nodes(), gang, {&spared, true, kPlaceStepsMax});
    if (!other.pods) {
      break;
    }
    pods = *std::move(other.pods);
    const GangRecord* const next = HinderedBy(gang, pods);
    if (next == hindered) {
      break;
    }
    hindered = next;
  }
  if (hindered == nullptr) {
    return {std::move(pods), false};
  }
  *refusal = {Constraint::kQueue,
              "waits behind " + hindered->request.name + ", which needs " +
                  DescribeNeed(hindered->request.gang)};
  return {};
}

}  // namespace lockstep::control
