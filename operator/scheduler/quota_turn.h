#pragma once

#include <map>
#include <set>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// The promise of a queue (TurnKeeper) for what its quota allows: while a gang waits because others
// of its queue hold the quota, none that comes later takes what will be its own once all of the
// queue have ended that are older than it. It is made to the first that waits; the next is first
// when that one has started.
//
// One of these serves one round. The gangs of a queue come in their order.
class QuotaTurns {
 public:
  explicit QuotaTurns(const ClusterState& state) : state_(state) {}

  // From now on the gangs of the queue come out of their order: who of those is first is known by
  // who they are.
  void TakeAsTheyCome(QueueIndex queue) { out_of_order_.insert(queue); }

  // The gang lacks quota. One that would lack it even if nobody else of its queue held any is in
  // nobody's way.
  void Wait(const GangRecord& gang);

  // Whether the gang has its quota when all others of its queue have ended.
  bool MayHaveQuota(const GangRecord& gang) const;

  // Who of the queue waits for its quota and is first; null: nobody.
  const GangRecord* FirstOf(QueueIndex queue) const;

  // Who of its queue would wait longer if the gang started; null: nobody. Cost: that of a check.
  const GangRecord* HinderedBy(const GangRecord& gang) const;

 private:
  struct First {
    const GangRecord* gang = nullptr;
    ResourceVector lacks;  // what it asks for, less what comes free for it
    bool came_in_order = true;
  };

  bool ComesFirst(const GangRecord& a, const GangRecord& b) const;
  ResourceVector LacksAtLast(const GangRecord& gang) const;

  const ClusterState& state_;
  std::map<QueueIndex, First> first_;
  std::set<QueueIndex> out_of_order_;
};

}  // namespace lockstep::control
