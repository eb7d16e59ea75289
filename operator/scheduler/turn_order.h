#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Who is next among all that wait, as each queue orders what is in it and below it: who came first,
// the highest priority and then who came first, or whoever holds least for its weight, a namespace
// or a queue. Asked anew after every answer, because shares move with every gang that starts.
//
// Only a gang that may start one day stands for its line. Those that may not, whoever else runs,
// have their turns as soon as they are the first of theirs, and weigh for nobody.
class TurnOrder {
 public:
  explicit TurnOrder(const ClusterState& state);

  // Null: everybody had its turn. Cost: the number of queues.
  const GangRecord* Next();

  // From now on the shortest of the queue come first, of each namespace or priority where that
  // decides: by when they will have ended that start now, as is expected; those last of whom nobody
  // knows. `gang`, whose turn it was, has its turn again. Precondition: the queue exists.
  void PutShortestFirst(const GangRecord& gang, WallTime now);

 private:
  struct Line {
    std::deque<const GangRecord*> gangs;
    const GangRecord* may_start = nullptr;  // the first of them that was asked whether it may
  };

  Line& LineOf(const GangRecord& gang);
  void SortByPriority(QueueIndex queue);
  const GangRecord* Peek(QueueIndex queue);
  const GangRecord* PeekFair(QueueIndex queue);
  void SetHopelessAside(QueueIndex queue);
  const GangRecord* Better(const GangRecord* a, const GangRecord* b, QueueOrdering ordering) const;

  const ClusterState& state_;
  // For each queue without queues below it; by namespace where that decides, else all under "".
  std::vector<std::map<std::string, Line>> lines_;
  std::vector<bool> has_changed_;        // by queue: since the hopeless were set aside
  bool has_rivals_ = false;              // more lines than one
  std::deque<const GangRecord*> aside_;  // those that may never start
};

}  // namespace lockstep::control
