#include "operator/view/stored/queue_status.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "common/base/name_list.h"
#include "operator/scheduler/queue/amount_text.h"

namespace lockstep::control {
namespace {

QueueAmounts AmountsOf(const ResourceVector& resources) {
  QueueAmounts amounts;
  for (const NamedAmount& one : resources.All()) {
    if (one.amount != 0) {
      amounts[one.name] = one.amount;
    }
  }
  return amounts;
}

QueueAmounts BorrowedOf(const QueueStatus& status) {
  QueueAmounts borrowed;
  for (const auto& [name, nominal] : status.nominal) {
    const auto used = status.used.find(name);
    if (used != status.used.end() && used->second > nominal) {
      borrowed[name] = used->second - nominal;
    }
  }
  return borrowed;
}

// Since when the gang waits for its places.
WallTime WaitsSince(const GangRecord& gang) {
  return std::max(gang.request.since, gang.request.waits_since);
}

// Jobs that wait.
struct WaitCount {
  int64_t jobs = 0;
  std::optional<WallTime> oldest;  // since when the first of them waits

  void Add(const GangRecord& gang) { Add(WaitCount{1, WaitsSince(gang)}); }

  void Add(const WaitCount& other) {
    jobs += other.jobs;
    if (other.oldest.has_value()) {
      oldest = std::min(oldest.value_or(*other.oldest), *other.oldest);
    }
  }
};

// What is counted of a queue is counted of those above it, too.
struct QueueCounts {
  WaitCount waiting;
  ResourceVector claimed;  // kept for those of them that wait until others have gone
  ResourceVector leaving;  // held by pods of those who went for others: on no queue's bill any more
  ResourceVector left;     // the part of that which is held for gangs without places
};

using CountsByQueue = std::map<QueueIndex, QueueCounts>;

template <typename Change>
void CountUpwards(const QueueTree& queues,
                  QueueIndex queue,
                  CountsByQueue* counts,
                  const Change& change) {
  change(&(*counts)[queue]);
  for (std::string parent = queues.SpecOf(queue).parent; !parent.empty();) {
    const QueueIndex above = *queues.Find(parent);
    change(&(*counts)[above]);
    parent = queues.SpecOf(above).parent;
  }
}

bool IsOffTheBill(const GangRecord& gang) {
  return gang.request.queue.starts_with(kOffTheBill);
}

// The queue in which the gang's room is used. Pods of a gang that has given up
// its places are off the bill: no quota refuses a gang because of them. Their room is still used in
// the gang's own queue.
std::string UsedIn(const GangRecord& gang) {
  const std::string& queue = gang.request.queue;
  return IsOffTheBill(gang) ? queue.substr(std::string_view(kOffTheBill).size())
         : queue.empty()    ? kDefaultQueue
                            : queue;
}

QueueIndex QueueOfLeaving(const ClusterState& state, const GangRecord& gang) {
  const std::string queue = UsedIn(gang);
  return queue.empty() ? kTopQueue : state.queues().Find(queue).value_or(kTopQueue);
}

CountsByQueue CountsOf(const ClusterState& state) {
  CountsByQueue counts;
  for (QueueIndex queue = 0; queue < state.waiting().size(); ++queue) {
    WaitCount waiting;
    for (const GangRecord* const gang : state.waiting()[queue]) {
      waiting.Add(*gang);
    }
    CountUpwards(
        state.queues(), queue, &counts, [&](QueueCounts* one) { one->waiting.Add(waiting); });
  }
  for (const GangRecord* const gang : state.claiming()) {
    CountUpwards(state.queues(), gang->queue.value_or(kTopQueue), &counts, [&](QueueCounts* one) {
      one->waiting.Add(*gang);
      one->claimed = Sum(one->claimed, gang->total);
    });
  }
  const auto count_leaving = [&](const GangRecord& gang) {
    CountUpwards(state.queues(), QueueOfLeaving(state, gang), &counts, [&](QueueCounts* one) {
      one->leaving = Sum(one->leaving, gang.total);
      if (IsOffTheBill(gang)) {
        one->left = Sum(one->left, gang.total);
      }
    });
  };
  for (const GangRecord* const gang : state.leaving()) {
    count_leaving(*gang);
  }
  for (const GangRecord* const gang : state.RunningIn(kTopQueue)) {  // in nobody's queue
    if (IsOffTheBill(*gang)) {
      count_leaving(*gang);
    }
  }
  return counts;
}

std::string NamesOf(const QueueTree& queues, const std::vector<QueueIndex>& some) {
  std::vector<std::string> names;
  for (const QueueIndex one : some) {
    names.push_back(queues.SpecOf(one).name);
  }
  return NameList(names);
}

// Of a queue that is served.
void DescribeServedQueue(const QueueTree& queues, QueueIndex queue, QueueStatus* status) {
  const std::vector<QueueIndex>& below = queues.ChildrenOf(queue);
  if (below.empty()) {
    status->reason = "Served";
    status->message = "jobs can use this queue";
    return;
  }
  status->reason = "HasQueuesBelow";
  status->message = "jobs can name only the queues below this one: " + NamesOf(queues, below);
  for (const Overpromise& one : queues.OverpromisesOf(queue)) {
    status->reason = "PromisesTooMuch";
    status->message += "; their nominal amounts together are " +
                       AmountText(one.resource, one.promised) + ", but this queue has only " +
                       FiguresOf(one.resource, one.promised, one.nominal).found;
  }
}

// What the jobs of the queue hold, and how many wait. Its nominal amounts are set.
void SetCounts(const QueueTree& tree,
               QueueIndex index,
               const QueueCounts& count,
               QueueStatus* status) {
  status->used = AmountsOf(Sum(Sum(tree.HeldBy(index), count.leaving), Times(count.claimed, -1)));
  status->left = AmountsOf(count.left);
  status->borrowed = BorrowedOf(*status);
  status->claimed = AmountsOf(count.claimed);
  status->waiting = count.waiting.jobs;
  status->oldest_wait = count.waiting.oldest;
}

struct UnservedCounts {
  WaitCount waiting;
  ResourceVector used;
  ResourceVector left;  // as of QueueCounts
};

// What is counted of gangs that name a queue which is not served, by its name: they wait, and those
// that run hold what they held. What is counted of one below another that is not served either is
// counted of that, too.
std::map<std::string, UnservedCounts> CountsOfUnserved(const QueuesByName& by_name,
                                                       const ClusterState& state) {
  std::map<std::string, UnservedCounts> counts;
  const auto count_upwards = [&](const GangRecord& gang, const auto& change) {
    std::set<std::string> seen;
    for (auto at = by_name.find(UsedIn(gang));
         at != by_name.end() && !state.queues().Find(at->first) && seen.insert(at->first).second;
         at = by_name.find(at->second->queue.parent)) {
      change(&counts[at->first]);
    }
  };
  for (const GangRecord* const gang : state.waiting()[kTopQueue]) {
    count_upwards(*gang, [&](UnservedCounts* one) { one->waiting.Add(*gang); });
  }
  const auto count_used = [&](const GangRecord& gang) {
    count_upwards(gang, [&](UnservedCounts* one) {
      one->used = Sum(one->used, gang.total);
      if (IsOffTheBill(gang)) {
        one->left = Sum(one->left, gang.total);
      }
    });
  };
  for (const GangRecord* const gang : state.RunningIn(kTopQueue)) {
    count_used(*gang);
  }
  for (const GangRecord* const gang : state.leaving()) {
    count_used(*gang);
  }
  return counts;
}

}  // namespace

std::map<std::string, QueueStatus> QueueStatuses(const std::vector<StoredQueue>& queues,
                                                 const ClusterState& state) {
  const QueueTree& tree = state.queues();
  CountsByQueue counts = CountsOf(state);
  const QueuesByName by_name = ByName(queues);
  const std::map<std::string, std::string> unserved = UnservedQueues(queues);
  const std::map<std::string, UnservedCounts> unserved_counts = CountsOfUnserved(by_name, state);
  std::set<std::string> parents;
  for (const auto& [name, stored] : by_name) {
    parents.insert(stored->queue.parent);
  }
  std::map<std::string, QueueStatus> statuses;
  for (const auto& [name, stored] : by_name) {
    QueueStatus& status = statuses[name];
    status.has_queues_below = parents.contains(name);
    const auto why = unserved.find(name);
    status.is_ready = why == unserved.end();
    status.reason = "NotServed";
    status.message = status.is_ready ? "" : why->second;
    status.nominal = stored->queue.nominal;
    const auto index = tree.Find(name);
    if (!index) {
      if (const auto count = unserved_counts.find(name); count != unserved_counts.end()) {
        status.used = AmountsOf(count->second.used);
        status.left = AmountsOf(count->second.left);
        status.borrowed = BorrowedOf(status);
        status.waiting = count->second.waiting.jobs;
        status.oldest_wait = count->second.waiting.oldest;
      }
      continue;
    }
    if (status.is_ready) {
      status.nominal = tree.NominalOf(*index);
      DescribeServedQueue(tree, *index, &status);
    }
    SetCounts(tree, *index, counts[*index], &status);
  }
  return statuses;
}

std::optional<QueueStatus> DefaultStanding(const std::vector<StoredQueue>& queues,
                                           const ClusterState& state) {
  const bool is_written = std::any_of(queues.begin(), queues.end(), [](const StoredQueue& stored) {
    return stored.queue.name == kDefaultQueue;
  });
  const QueueTree& tree = state.queues();
  const auto index = tree.Find(kDefaultQueue);
  if (is_written || !index) {
    return std::nullopt;
  }
  QueueStatus status;
  DescribeServedQueue(tree, *index, &status);
  SetCounts(tree, *index, CountsOf(state)[*index], &status);
  return status;
}

}  // namespace lockstep::control
