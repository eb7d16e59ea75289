#include "operator/scheduler/queue_positions.h"

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace lockstep::control {
namespace {

using Gangs = std::vector<const GangRecord*>;

// The gangs of one namespace that have no number yet, and what it holds with those that have.
struct SpaceLine {
  Gangs gangs;
  std::size_t next = 0;
  ResourceVector numbered;
  QueueTree::Share share;
};

// As TurnOrder chooses between namespaces.
struct HasTurnBefore {
  bool operator()(const SpaceLine* a, const SpaceLine* b) const {
    return a->share != b->share ? a->share < b->share
                                : IsOlder(*a->gangs[a->next], *b->gangs[b->next]);
  }
};

Gangs InFairTurns(const ClusterState& state, QueueIndex queue, const Gangs& gangs) {
  const ResourceVector& all = state.nodes().offered_in_all();
  Gangs in_turns;
  std::map<std::string, SpaceLine> spaces;
  for (const GangRecord* const gang : gangs) {
    const bool is_charged = gang->state == GangState::kClaiming;
    (is_charged ? in_turns : spaces[gang->space].gangs).push_back(gang);
  }
  std::set<SpaceLine*, HasTurnBefore> by_share;
  for (auto& [name, space] : spaces) {
    space.share = state.queues().ShareOfSpace(queue, name, all, space.numbered);
    by_share.insert(&space);
  }
  while (!by_share.empty()) {
    SpaceLine& space = *by_share.extract(by_share.begin()).value();
    const GangRecord& gang = *space.gangs[space.next++];
    in_turns.push_back(&gang);
    if (space.next == space.gangs.size()) {
      continue;
    }
    if (!by_share.empty()) {  // else nobody asks
      space.numbered = Sum(space.numbered, gang.total);
      space.share = state.queues().ShareOfSpace(queue, gang.space, all, space.numbered);
    }
    by_share.insert(&space);
  }
  return in_turns;
}

}  // namespace

std::vector<LinePosition> PositionsOf(const ClusterState& state,
                                      const std::vector<const GangRecord*>& line) {
  struct QueueLine {
    Gangs gangs;
    std::size_t next = 0;
  };

  std::map<QueueIndex, QueueLine> queues;
  for (const GangRecord* const gang : line) {
    if (gang->state != GangState::kRunning) {
      queues[*gang->queue].gangs.push_back(gang);
    }
  }
  for (auto& [index, queue] : queues) {
    if (state.queues().SpecOf(index).ordering == QueueOrdering::kFairShare) {
      queue.gangs = InFairTurns(state, index, queue.gangs);
    }
  }
  // Queues take turns as they did.
  std::vector<LinePosition> positions;
  for (const GangRecord* const gang : line) {
    if (gang->state != GangState::kRunning) {
      QueueLine& queue = queues[*gang->queue];
      const GangRecord& numbered = *queue.gangs[queue.next++];
      positions.push_back({numbered.request.name, static_cast<int64_t>(queue.next)});
    }
  }
  return positions;
}

}  // namespace lockstep::control
