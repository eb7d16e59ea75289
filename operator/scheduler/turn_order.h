#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "operator/scheduler/cluster_state.h"

namespace lockstep::control {

// Who is next among all that wait, as each queue orders what is in it and below it: who came first,
// the highest priority and then who came first, or whoever holds least for its weight, a namespace
// or a queue. Asked anew after every answer, because shares move with every gang that starts.
class TurnOrder {
 public:
  explicit TurnOrder(const ClusterState& state);

  // Null: everybody had its turn. Cost: the number of queues.
  const GangRecord* Next();

 private:
  using Line = std::deque<const GangRecord*>;

  const GangRecord* Peek(QueueIndex queue) const;
  const GangRecord* PeekFair(QueueIndex queue) const;
  const GangRecord* Better(const GangRecord* a, const GangRecord* b, QueueOrdering ordering) const;

  const ClusterState& state_;
  // For each queue without queues below it; by namespace where that decides, else all under "".
  std::vector<std::map<std::string, Line>> lines_;
};

}  // namespace lockstep::control
