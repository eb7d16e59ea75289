#pragma once

#include <cstdint>
#include <optional>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

struct PlaceOptions {
  const NodeLedger::Overrides* overrides = nullptr;  // null: what nodes have left is what counts
  // Whether the counts of what fits each domain hold: overrides, if any, only take away.
  bool has_counts = true;
  int64_t search_steps_max = 0;
};

struct PlaceResult {
  std::optional<PlacedPods> pods;
  bool reached_limit = false;  // without pods: a place may exist all the same
};

// Finds a node for every pod of a gang that waits, in the smallest domain that holds them all: one
// node, then a domain of the narrowest level, and so on up to the level that is required, or to the
// whole cluster. Of several domains the one with least room for such pods is taken, so that large
// ones stay free; where no single one will do, as few as possible of the level below. Nodes under
// suspicion are looked at where the others will not do.
//
// Exactness: a place is found wherever there is one, unless `reached_limit`; that is only possible
// for gangs whose pods ask for different things, or stand apart.
// Cost: for gangs of one shape, a comparison for each domain, and a pass over the groups of nodes
// of the one that is taken.
PlaceResult PlaceGang(const NodeLedger& nodes, const GangRecord& gang, const PlaceOptions& options);

// Whether counting leaves it open that the gang fits: each of its shapes alone, in some domain of
// the level that is required. False proves that no place exists. Cost: one comparison for each
// shape and domain. Exact for gangs of one shape whose pods need not stand apart, nor all on one
// node.
bool MayFitNow(const NodeLedger& nodes, const GangRecord& gang);
// The same if only strangers held anything.
bool MayFitEmpty(const NodeLedger& nodes, const GangRecord& gang);

// Whether comparing counts tells all there is to know of where the gang fits.
bool IsCountable(const GangRecord& gang);

// Domains that the gang may stand in whole, of which it takes one; empty where a level is required
// that the cluster does not have. By path.
std::vector<DomainIndex> DomainsFor(const NodeLedger& nodes, const GangRecord& gang);

}  // namespace lockstep::control
