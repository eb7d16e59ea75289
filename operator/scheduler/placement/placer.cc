#include "operator/scheduler/placement/placer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "operator/scheduler/plan/arrangement.h"

namespace lockstep::control {
namespace {

using Count = int64_t (ShapeCounts::*)(ShapeIndex, DomainIndex) const;

bool CountsHold(const NodeLedger& nodes, const GangRecord& gang, DomainIndex domain, Count count) {
  for (std::size_t c = 0; c < gang.classes.size(); ++c) {
    if ((nodes.shapes().*count)(gang.shapes[c], domain) <
        static_cast<int64_t>(gang.classes[c].pods.size())) {
      return false;
    }
  }
  return true;
}

// Domains of the level in which the gang's pods can stand apart: those that hold one of some shape.
int64_t DomainsThatHoldOne(const NodeLedger& nodes,
                           const GangRecord& gang,
                           std::size_t level,
                           Count count) {
  int64_t found = 0;
  for (const auto& [path, domain] : nodes.domains().At(level)) {
    const bool holds_one =
        std::any_of(gang.shapes.begin(), gang.shapes.end(), [&](ShapeIndex shape) {
          return (nodes.shapes().*count)(shape, domain) > 0;
        });
    found += holds_one ? 1 : 0;
  }
  return found;
}

bool MayFit(const NodeLedger& nodes, const GangRecord& gang, Count count) {
  const TopologyTerms& terms = gang.request.topology;
  if (!CountsHold(nodes, gang, kWholeCluster, count)) {
    return false;
  }
  if (!terms.apart.empty() && terms.apart != kHostLevel) {
    const auto level = nodes.domains().LevelOf(terms.apart);
    if (!level || DomainsThatHoldOne(nodes, gang, *level, count) < gang.pod_count) {
      return false;
    }
  }
  if (terms.required.empty() || terms.required == kHostLevel) {
    return true;
  }
  const auto level = nodes.domains().LevelOf(terms.required);
  if (!level) {
    return false;
  }
  const auto& domains = nodes.domains().At(*level);
  return std::any_of(domains.begin(), domains.end(), [&](const auto& one) {
    return CountsHold(nodes, gang, one.second, count);
  });
}

// One gang's search for a place, narrow domains first.
class PlaceSearch {
 public:
  PlaceSearch(const NodeLedger& nodes, const GangRecord& gang, const PlaceOptions& options)
      : nodes_(nodes), gang_(gang), options_(options) {
    for (const auto& [name, suspicion] : gang.request.suspects) {
      if (const auto node = nodes.Find(name)) {
        suspects_[*node] = suspicion;
      }
    }
  }

  PlaceResult Run() {
    PlaceResult result;
    if (nodes_.has_suspects() || !suspects_.empty()) {
      suspicion_max_ = 0;
      result.pods = Search();
      suspicion_max_ = std::numeric_limits<int64_t>::max();
    }
    if (!result.pods) {
      result.pods = Search();
    }
    result.reached_limit = !result.pods && reached_limit_;
    return result;
  }

 private:
  const TopologyTerms& terms() const { return gang_.request.topology; }

  std::optional<PlacedPods> Search() {
    const std::size_t level_count = nodes_.domains().levels().size();
    const bool is_on_one_host = terms().required == kHostLevel;
    if (terms().apart.empty() && (is_on_one_host || (level_count > 0 && WantsLevel(kHostLevel)))) {
      if (auto pods = OnOneNode()) {
        return pods;
      }
    }
    const auto widest = terms().required.empty() ? std::optional<std::size_t>(0)
                                                 : nodes_.domains().LevelOf(terms().required);
    if (!widest || is_on_one_host) {
      return std::nullopt;
    }
    for (std::size_t level = level_count; level-- > *widest;) {
      const bool is_required = level == *widest && !terms().required.empty();
      if (is_required || WantsLevel(nodes_.domains().levels()[level])) {
        if (auto pods = InOneDomain(level)) {
          return pods;
        }
      }
    }
    if (!terms().required.empty()) {
      return std::nullopt;
    }
    return InDomain(kWholeCluster);
  }

  // Whether domains of the level are worth looking for: they are as wide as what is preferred.
  bool WantsLevel(std::string_view level) const {
    const auto apart = nodes_.domains().LevelOf(terms().apart);
    if (apart && gang_.pod_count > 1 && nodes_.domains().LevelOf(level) >= apart) {
      return false;  // such a domain takes one pod
    }
    if (terms().preferred.empty() || terms().preferred == kHostLevel) {
      return true;
    }
    const auto preferred = nodes_.domains().LevelOf(terms().preferred);
    const auto asked = nodes_.domains().LevelOf(level);
    return !preferred || (asked && *asked <= *preferred);
  }

  std::optional<PlacedPods> OnOneNode() {
    NodeLedger::RoomQuery query = Query(kWholeCluster);
    query.level = nodes_.domains().LevelOf(terms().required);
    std::optional<NodeIndex> node = nodes_.TightestHolding(query);
    if (!node && options_.overrides != nullptr) {
      node = OverriddenHolding();
    }
    if (!node) {
      return std::nullopt;
    }
    PlacedPods pods;
    for (const PodClass& pod_class : gang_.request.gang.classes) {
      for (const std::string& pod : pod_class.pods) {
        pods.push_back({pod, nodes_.NameOf(*node)});
      }
    }
    return pods;
  }

  int64_t SuspectedOf(NodeIndex node) const {
    const auto found = suspects_.find(node);
    return found == suspects_.end() ? 0 : found->second;
  }

  bool IsInRequiredDomain(NodeIndex node) const {
    const auto level = nodes_.domains().LevelOf(terms().required);
    return !level || nodes_.domains().AncestorAt(nodes_.DomainOf(node), *level).has_value();
  }

  std::optional<NodeIndex> OverriddenHolding() const {
    std::optional<NodeIndex> best;
    for (const auto& [node, room] : *options_.overrides) {
      const SnapshotNode& facts = nodes_.FactsOf(node);
      const bool holds = nodes_.is_known(node) && room.pods_free >= gang_.pod_count &&
                         facts.suspicion + SuspectedOf(node) <= suspicion_max_ &&
                         CountThatFits(room.free, gang_.total, 1) == 1 &&
                         std::all_of(gang_.classes.begin(),
                                     gang_.classes.end(),
                                     [&](const PodClass& one) { return Accepts(facts, one); });
      if (holds && (!best || nodes_.NameOf(node) < nodes_.NameOf(*best))) {
        best = node;
      }
    }
    return best;
  }

  // The domain with least room that holds them all.
  std::optional<PlacedPods> InOneDomain(std::size_t level) {
    std::vector<std::pair<int64_t, DomainIndex>> candidates;  // by path
    for (const auto& [path, domain] : nodes_.domains().At(level)) {
      if (!options_.has_counts || CountsHold(nodes_, gang_, domain, &ShapeCounts::FitsNow)) {
        candidates.emplace_back(RoomIn(domain), domain);
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    for (const auto& [room, domain] : candidates) {
      if (auto pods = InDomain(domain)) {
        return pods;
      }
    }
    return std::nullopt;
  }

  int64_t RoomIn(DomainIndex domain) const {
    return gang_.shapes.empty() ? 0 : nodes_.shapes().FitsNow(gang_.shapes.front(), domain);
  }

  // In as few as possible of the domains below, else anywhere in it.
  std::optional<PlacedPods> InDomain(DomainIndex domain) {
    if (options_.has_counts && !CountsHold(nodes_, gang_, domain, &ShapeCounts::FitsNow)) {
      return std::nullopt;
    }
    if (options_.has_counts && terms().apart.empty() &&
        !nodes_.domains().ChildrenOf(domain).empty()) {
      auto pods = gang_.classes.size() == 1 ? Packed(domain, gang_.classes.front()) : std::nullopt;
      if (pods || (pods = Arranged(RoomsOfFewest(domain)))) {
        return pods;
      }
    }
    return Arranged(nodes_.RoomsFor(Query(domain)));
  }

  // Pods of the gang's one shape in as few as possible of the domains below, all of which but one
  // they fill, so that what stays free stays together; and so in each of these. Empty where that
  // needs nodes that are in no domain below, or are not to be looked at.
  std::optional<PlacedPods> Packed(DomainIndex domain, const PodClass& part) {
    if (nodes_.domains().ChildrenOf(domain).empty()) {
      return PartIn(domain, part);
    }
    PlacedPods placed;
    auto first = part.pods.begin();
    for (const auto& [child, count] : SharesOf(domain, static_cast<int64_t>(part.pods.size()))) {
      PodClass share = part;
      share.pods.assign(first, first + count);
      first += count;
      const auto pods = Packed(child, share);
      if (!pods) {
        return std::nullopt;
      }
      placed.insert(placed.end(), pods->begin(), pods->end());
    }
    return first == part.pods.end() ? std::optional(std::move(placed)) : std::nullopt;
  }

  // How many of `count` pods go to which of the domains below, by name. The largest are filled
  // until one holds the rest, for which the one with least room is taken. Empty: they do not hold
  // them.
  std::vector<std::pair<DomainIndex, int64_t>> SharesOf(DomainIndex domain, int64_t count) const {
    const auto& children = nodes_.domains().ChildrenOf(domain);
    std::vector<std::pair<int64_t, DomainIndex>> rooms;  // from the most room to the least
    for (const auto& [name, child] : children) {
      rooms.emplace_back(RoomIn(child), child);
    }
    std::stable_sort(
        rooms.begin(), rooms.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::map<DomainIndex, int64_t> share_of;
    auto next = rooms.begin();
    for (; next != rooms.end() && next->first < count; ++next) {
      share_of[next->second] = next->first;
      count -= next->first;
    }
    if (next == rooms.end()) {
      return {};
    }
    const auto too_small = std::partition_point(
        next, rooms.end(), [count](const auto& one) { return one.first >= count; });
    const int64_t least = std::prev(too_small)->first;
    while (next->first > least) {
      ++next;
    }
    share_of[next->second] = count;
    std::vector<std::pair<DomainIndex, int64_t>> shares;
    for (const auto& [name, child] : children) {
      if (const auto share = share_of.find(child); share != share_of.end() && share->second > 0) {
        shares.emplace_back(child, share->second);
      }
    }
    return shares;
  }

  // Rooms of the domains below that have most room, until they hold each class; along the topology.
  std::vector<NodeRoom> RoomsOfFewest(DomainIndex domain) const {
    std::vector<DomainIndex> children;  // by name
    for (const auto& [value, child] : nodes_.domains().ChildrenOf(domain)) {
      children.push_back(child);
    }
    std::vector<DomainIndex> largest = children;
    std::stable_sort(largest.begin(), largest.end(), [&](DomainIndex a, DomainIndex b) {
      return RoomIn(a) > RoomIn(b);
    });
    std::vector<int64_t> missing;
    for (const PodClass& pod_class : gang_.classes) {
      missing.push_back(static_cast<int64_t>(pod_class.pods.size()));
    }
    const auto is_missing = [](int64_t count) { return count > 0; };
    std::size_t chosen = 0;
    while (chosen < largest.size() && std::any_of(missing.begin(), missing.end(), is_missing)) {
      for (std::size_t c = 0; c < missing.size(); ++c) {
        missing[c] -= nodes_.shapes().FitsNow(gang_.shapes[c], largest[chosen]);
      }
      ++chosen;
    }
    largest.resize(chosen);
    std::vector<NodeRoom> rooms;
    for (const DomainIndex child : children) {
      if (std::find(largest.begin(), largest.end(), child) != largest.end()) {
        std::vector<NodeRoom> more = nodes_.RoomsFor(Query(child));
        rooms.insert(rooms.end(), more.begin(), more.end());
      }
    }
    return rooms;
  }

  NodeLedger::RoomQuery Query(DomainIndex domain) const { return Query(domain, gang_.classes); }

  NodeLedger::RoomQuery Query(DomainIndex domain, const std::vector<PodClass>& classes) const {
    return {classes,
            domain,
            options_.overrides,
            terms().apart,
            suspicion_max_,
            std::nullopt,
            suspects_.empty() ? nullptr : &suspects_};
  }

  std::optional<PlacedPods> PartIn(DomainIndex domain, const PodClass& part) {
    const std::vector<PodClass> classes = {part};
    const std::vector<NodeRoom> rooms = nodes_.RoomsFor(Query(domain, classes));
    const ArrangeResult result = Arrange(classes, rooms, options_.search_steps_max);
    return result.fills ? std::optional(Filled(classes, rooms, *result.fills)) : std::nullopt;
  }

  std::optional<PlacedPods> Arranged(const std::vector<NodeRoom>& rooms) {
    const ArrangeResult result = Arrange(gang_.classes, rooms, options_.search_steps_max);
    reached_limit_ = reached_limit_ || result.reached_limit;
    if (!result.fills) {
      return std::nullopt;
    }
    return InRankOrder(rooms, *result.fills);
  }

  // Rooms stand along the topology, and the pods of a class fill them in rank order.
  static PlacedPods Filled(const std::vector<PodClass>& classes,
                           const std::vector<NodeRoom>& rooms,
                           const std::vector<Fill>& fills) {
    PlacedPods filled;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      std::size_t next_pod = 0;
      for (std::size_t r = 0; r < rooms.size(); ++r) {
        for (int64_t i = 0; i < fills[c][r]; ++i) {
          filled.push_back({classes[c].pods[next_pod++], rooms[r].node->name});
        }
      }
    }
    return filled;
  }

  PlacedPods InRankOrder(const std::vector<NodeRoom>& rooms, const std::vector<Fill>& fills) const {
    PlacedPods filled = Filled(gang_.classes, rooms, fills);
    if (gang_.classes.size() == 1) {
      return filled;  // classes that are one keep their order
    }
    std::map<std::string_view, std::string_view> node_of;
    for (const PlacedPod& placed : filled) {
      node_of.emplace(placed.pod, placed.node);
    }
    PlacedPods ordered;
    for (const PodClass& pod_class : gang_.request.gang.classes) {
      for (const std::string& pod : pod_class.pods) {
        ordered.push_back({pod, std::string(node_of.at(pod))});
      }
    }
    return ordered;
  }

  const NodeLedger& nodes_;
  const GangRecord& gang_;
  const PlaceOptions& options_;
  NodeLedger::Suspects suspects_;
  int64_t suspicion_max_ = std::numeric_limits<int64_t>::max();
  bool reached_limit_ = false;
};

}  // namespace

PlaceResult PlaceGang(const NodeLedger& nodes,
                      const GangRecord& gang,
                      const PlaceOptions& options) {
  if (gang.pod_count == 0) {
    return {PlacedPods{}, false};
  }
  return PlaceSearch(nodes, gang, options).Run();
}

bool MayFitNow(const NodeLedger& nodes, const GangRecord& gang) {
  return MayFit(nodes, gang, &ShapeCounts::FitsNow);
}

bool MayFitEmpty(const NodeLedger& nodes, const GangRecord& gang) {
  return MayFit(nodes, gang, &ShapeCounts::FitsEmpty);
}

bool IsCountable(const GangRecord& gang) {
  const TopologyTerms& terms = gang.request.topology;
  return gang.classes.size() == 1 && terms.apart.empty() && terms.required != kHostLevel;
}

std::vector<DomainIndex> DomainsFor(const NodeLedger& nodes, const GangRecord& gang) {
  const std::string& required = gang.request.topology.required;
  if (required.empty() || required == kHostLevel) {
    return {kWholeCluster};
  }
  std::vector<DomainIndex> found;
  if (const auto level = nodes.domains().LevelOf(required)) {
    for (const auto& [path, domain] : nodes.domains().At(*level)) {
      found.push_back(domain);
    }
  }
  return found;
}

}  // namespace lockstep::control
