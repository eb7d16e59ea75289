#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/scheduler/placement/placer.h"
#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// How many pods of a waiting gang will fit when all have ended that are older than it: counted
// where younger ones stand, and then only again for nodes that have changed.
class LaterCounts {
 public:
  // As many as fit the domain, of those that the gang may stand in, which holds the most, beside
  // what one more gang would hold. Precondition: IsCountable(gang).
  int64_t MostBeside(const ClusterState& state,
                     const GangRecord& gang,
                     const std::vector<NodeHold>& taken);

  // A domain in which they will all fit; empty: there is none.
  std::optional<DomainIndex> DomainFor(const ClusterState& state, const GangRecord& gang);

  // Forgets gangs that do not wait any more.
  void Trim(const ClusterState& state);

 private:
  // Pods that no longer fit where younger gangs stand; elsewhere as many fit as if nothing ran.
  struct Counts {
    uint64_t serial = 0;    // counts of another request of this name say nothing
    uint64_t topology = 0;  // nor do those of other domains
    uint64_t version = 0;
    std::map<NodeIndex, int64_t> lost_by_node;
    std::map<DomainIndex, int64_t> lost_by_domain;
  };

  const Counts& Refreshed(const ClusterState& state, const GangRecord& gang);

  std::map<std::string, Counts> by_gang_;
};

// More gangs ahead than this are not looked at one by one: the gang waits. Choice: keeps a round
// within milliseconds.
inline constexpr std::size_t kAheadMax = 64;

// The promise of a queue: who came later may start before those who wait only where none of them
// waits a moment longer for it. For each that waits: suppose that everything older than it has
// ended. If it fitted before, it must still fit beside the newcomer. If it did not, as younger ones
// are in its place already, no newcomer may add to what it lacks: those end some day, and then it
// fits.
//
// One of these serves one queue in one round. Gangs come in their order.
class TurnKeeper {
 public:
  // `counts` outlives it.
  TurnKeeper(const ClusterState& state, LaterCounts* counts);

  // The gang stays where it is; those after it may not be in its way. One that would not fit even
  // if only strangers held anything is in nobody's way, unless nodes are on their way for it
  // (AskStage::kAwaited): then nobody may add to what it lacks.
  void Wait(const GangRecord& gang);

  // Room for the gang for which nobody ahead has to wait longer: `pods`, or another place, of which
  // some are tried. Otherwise kQueue, with whom it waits behind. Precondition: not is_long().
  PlaceResult PlaceInTurn(const GangRecord& gang, PlacedPods pods, Unschedulable* refusal);

  // Whether nobody that it has heard of waits.
  bool is_free() const { return ahead_.empty(); }

  // Whether more wait than are looked at one by one: nobody else starts in turn.
  bool is_long() const { return ahead_.size() > kAheadMax; }

  // Whom a gang waits behind then. Precondition: is_long().
  std::string DescribeLine() const;

  // Who waits first of those that WouldFit; null: nobody does.
  const GangRecord* First();

  // Whether the gang may fit if only strangers held anything. Where all its pods are to be on one
  // node that is searched for once.
  bool WouldFit(const GangRecord& gang);

  // Whether nobody ahead would have to wait longer for the gang at `pods`; otherwise who would.
  const GangRecord* HinderedBy(const GangRecord& gang, const PlacedPods& pods);

 private:
  using Uses = std::map<NodeIndex, NodeUsage>;

  // Who is supposed to have ended when a gang's turn comes.
  enum class Ended { kOlder, kAll };

  // A place of a gang ahead when all that are older have ended, found by a search.
  struct Witness {
    bool exists = false;
    uint64_t version = 0;  // of the nodes when it was looked for
    Uses uses;
  };

  bool IsHinderedBy(const GangRecord& waiting, const std::vector<NodeHold>& taken);
  const Witness& WitnessOf(const GangRecord& waiting, Ended ended);
  Witness Search(const GangRecord& waiting, Ended ended, const Uses& beside) const;
  NodeFree RoomOn(NodeIndex node, const GangRecord& waiting, Ended ended, const Uses& beside) const;
  bool Holds(const GangRecord& waiting, Ended ended, const Uses& uses, const Uses& beside) const;
  bool AddsToLack(const GangRecord& waiting, const Uses& uses) const;
  Uses UsesLater(const GangRecord& waiting, const GangRecord& newcomer);
  Uses UsesOnceFit(const GangRecord& waiting);

  const ClusterState& state_;
  LaterCounts* counts_;
  std::vector<const GangRecord*> ahead_;
  // Of those that counts do not tell of.
  std::map<std::pair<const GangRecord*, Ended>, Witness> witnesses_;
  int plans_left_;
};

}  // namespace lockstep::control
