#include "operator/scheduler/placement/room_turn.h"

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

NodeFree Smaller(const NodeFree& a, const NodeFree& b) {
  // What is in both: all of `a` but what it has more.
  NodeFree smaller = {Left(a.free, Left(a.free, WithoutPorts(b.free))),
                      std::min(a.pods_free, b.pods_free)};
  smaller.free.host_ports = Larger(a.free, b.free).host_ports;  // what either has taken
  return smaller;
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

int64_t CountIn(const std::map<DomainIndex, int64_t>& counts, DomainIndex domain) {
  const auto found = counts.find(domain);
  return found == counts.end() ? 0 : found->second;
}

// Whether nodes that are not there yet are on their way for the gang.
bool IsAwaited(const GangRecord& gang) {
  return gang.request.asking.stage == AskStage::kAwaited;
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

int64_t LaterCounts::MostBeside(const ClusterState& state,
                                const GangRecord& gang,
                                const std::vector<NodeHold>& taken) {
  const Counts& counts = Refreshed(state, gang);
  const NodeLedger& nodes = state.nodes();
  const ResourceVector& request = gang.classes.front().request;
  std::map<DomainIndex, int64_t> lost;
  for (const auto& [node, usage] : SumByNode(taken)) {
    if (!nodes.shapes().Accepts(gang.shapes.front(), node)) {
      continue;
    }
    const NodeFree later = state.FreeLater(node, gang);
    const int64_t fewer =
        ShapeCounts::PodsOn(later, request) - ShapeCounts::PodsOn(Beside(later, usage), request);
    ForEachDomain(nodes, node, [&](DomainIndex domain) { lost[domain] += fewer; });
  }
  int64_t most = 0;
  for (const DomainIndex domain : DomainsFor(nodes, gang)) {
    most = std::max(most,
                    nodes.shapes().FitsEmpty(gang.shapes.front(), domain) -
                        CountIn(counts.lost_by_domain, domain) - CountIn(lost, domain));
  }
  return most;
}

std::optional<DomainIndex> LaterCounts::DomainFor(const ClusterState& state,
                                                  const GangRecord& gang) {
  const Counts& counts = Refreshed(state, gang);
  const NodeLedger& nodes = state.nodes();
  for (const DomainIndex domain : DomainsFor(nodes, gang)) {
    if (nodes.shapes().FitsEmpty(gang.shapes.front(), domain) -
            CountIn(counts.lost_by_domain, domain) >=
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
  if (!is_long() && (IsAwaited(gang) || MayFitEmpty(state_.nodes(), gang))) {
    ahead_.push_back(&gang);
  }
}

bool TurnKeeper::WouldFit(const GangRecord& gang) {
  const TopologyTerms& terms = gang.request.topology;
  const bool counts_tell = terms.required != kHostLevel && terms.apart.empty();
  return MayFitEmpty(state_.nodes(), gang) && (counts_tell || WitnessOf(gang, Ended::kAll).exists);
}

const GangRecord* TurnKeeper::First() {
  const auto first = std::find_if(ahead_.begin(), ahead_.end(), [&](const GangRecord* gang) {
    return IsAwaited(*gang) || WouldFit(*gang);
  });
  return first == ahead_.end() ? nullptr : *first;
}

// What the node has left by then, beside what `beside` takes of it.
NodeFree TurnKeeper::RoomOn(NodeIndex node,
                            const GangRecord& waiting,
                            Ended ended,
                            const Uses& beside) const {
  NodeFree room = ended == Ended::kOlder ? state_.FreeLater(node, waiting)
                                         : state_.nodes().FreeOfStrangers(node);
  const auto found = beside.find(node);
  return found == beside.end() ? room : Beside(std::move(room), found->second);
}

// By a search among what nodes have left by then.
TurnKeeper::Witness TurnKeeper::Search(const GangRecord& waiting,
                                       Ended ended,
                                       const Uses& beside) const {
  const NodeLedger& nodes = state_.nodes();
  NodeLedger::Overrides overrides;
  for (NodeIndex node = 0; node < nodes.index_end(); ++node) {
    NodeFree later = RoomOn(node, waiting, ended, beside);
    if (later != nodes.FreeNow(node)) {
      overrides.emplace(node, std::move(later));
    }
  }
  const PlaceResult place =
      PlaceGang(nodes, waiting, {&overrides, /*has_counts=*/false, kCheckStepsMax});
  if (!place.pods) {
    return {false, nodes.version(), {}};
  }
  return {true, nodes.version(), SumByNode(state_.HoldsOf(waiting, *place.pods))};
}

// Whether these nodes will have so much left by then.
bool TurnKeeper::Holds(const GangRecord& waiting,
                       Ended ended,
                       const Uses& uses,
                       const Uses& beside) const {
  return std::all_of(uses.begin(), uses.end(), [&](const auto& one) {
    return HasRoomFor(RoomOn(one.first, waiting, ended, beside), one.second);
  });
}

const TurnKeeper::Witness& TurnKeeper::WitnessOf(const GangRecord& waiting, Ended ended) {
  const auto [entry, is_new] = witnesses_.try_emplace({&waiting, ended});
  Witness& witness = entry->second;
  const bool is_valid = witness.exists ? Holds(waiting, ended, witness.uses, {})
                                       : witness.version == state_.nodes().version();
  if (is_new || !is_valid) {
    witness = Search(waiting, ended, {});
  }
  return witness;
}

bool TurnKeeper::IsHinderedBy(const GangRecord& waiting, const std::vector<NodeHold>& taken) {
  if (IsCountable(waiting)) {
    const int64_t before = counts_->MostBeside(state_, waiting, {});
    return counts_->MostBeside(state_, waiting, taken) < std::min(before, waiting.pod_count);
  }
  const Uses uses = SumByNode(taken);
  if (!WitnessOf(waiting, Ended::kOlder).exists) {
    // Where it will stand once the younger have ended, too, is kept for it.
    const Witness& at_last = WitnessOf(waiting, Ended::kAll);
    return at_last.exists ? !Holds(waiting, Ended::kAll, at_last.uses, uses)
                          : IsAwaited(waiting) && AddsToLack(waiting, uses);
  }
  if (Holds(waiting, Ended::kOlder, WitnessOf(waiting, Ended::kOlder).uses, uses)) {
    return false;
  }
  Witness other = Search(waiting, Ended::kOlder, uses);
  const bool exists = other.exists;
  if (exists) {
    witnesses_[{&waiting, Ended::kOlder}] = std::move(other);
  }
  return !exists;
}

// Whether fewer pods of some class would fit, of as many as there are of it: each class by itself,
// as they have no place together.
bool TurnKeeper::AddsToLack(const GangRecord& waiting, const Uses& uses) const {
  const NodeLedger& nodes = state_.nodes();
  for (std::size_t c = 0; c < waiting.classes.size(); ++c) {
    const PodClass& pod_class = waiting.classes[c];
    int64_t before = 0;
    int64_t fewer = 0;
    for (const auto& [name, node] : nodes.by_name()) {
      if (!nodes.shapes().Accepts(waiting.shapes[c], node)) {
        continue;
      }
      const int64_t fit =
          ShapeCounts::PodsOn(RoomOn(node, waiting, Ended::kOlder, {}), pod_class.request);
      before += fit;
      if (uses.contains(node)) {
        fewer += fit -
                 ShapeCounts::PodsOn(RoomOn(node, waiting, Ended::kOlder, uses), pod_class.request);
      }
    }
    if (before - fewer < std::min(before, static_cast<int64_t>(pod_class.pods.size()))) {
      return true;
    }
  }
  return false;
}

const GangRecord* TurnKeeper::HinderedBy(const GangRecord& gang, const PlacedPods& pods) {
  if (ahead_.empty()) {
    return nullptr;
  }
  const std::vector<NodeHold> taken = state_.HoldsOf(gang, pods);
  for (const GangRecord* const waiting : ahead_) {
    // Who is older than one that waits has ended when that one's turn comes.
    if (IsOlder(*waiting, gang) && IsHinderedBy(*waiting, taken)) {
      return waiting;
    }
  }
  return nullptr;
}

// Where the one ahead will stand when younger ones have ended, too.
TurnKeeper::Uses TurnKeeper::UsesOnceFit(const GangRecord& waiting) {
  if (!IsCountable(waiting) && WitnessOf(waiting, Ended::kAll).exists) {
    return WitnessOf(waiting, Ended::kAll).uses;
  }
  const ShapeCounts& shapes = state_.nodes().shapes();
  Uses uses;
  for (const auto& [name, node] : state_.nodes().by_name()) {
    if (std::any_of(waiting.shapes.begin(), waiting.shapes.end(), [&](ShapeIndex shape) {
          return shapes.Accepts(shape, node);
        })) {
      const NodeFree later = state_.FreeLater(node, waiting);
      uses[node] = {WithoutPorts(later.free), later.pods_free};
    }
  }
  return uses;
}

// A place of the one ahead, where it will have one: on nodes that the newcomer could not use now,
// as far as they do.
TurnKeeper::Uses TurnKeeper::UsesLater(const GangRecord& waiting, const GangRecord& newcomer) {
  if (!IsCountable(waiting)) {
    const Witness& witness = WitnessOf(waiting, Ended::kOlder);
    return witness.exists ? witness.uses : UsesOnceFit(waiting);
  }
  const NodeLedger& nodes = state_.nodes();
  const auto domain = counts_->DomainFor(state_, waiting);
  if (!domain) {
    return UsesOnceFit(waiting);
  }
  const auto level = nodes.domains().LevelOf(waiting.request.topology.required);
  const PodClass& pod_class = waiting.classes.front();
  int64_t missing = waiting.pod_count;
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

std::string TurnKeeper::DescribeLine() const {
  return "waits behind " + ahead_.front()->request.name + " and at least " +
         Plural(static_cast<int64_t>(ahead_.size()) - 1, "other job");
}

PlaceResult TurnKeeper::PlaceInTurn(const GangRecord& gang,
                                    PlacedPods pods,
                                    Unschedulable* refusal) {
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
