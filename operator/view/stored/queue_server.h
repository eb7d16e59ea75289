#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/view/stored/stored_queue.h"

namespace lockstep::control {

// Another release of the operator in this cluster, by its lease, whether or not it is at work: one
// that is replaced comes back, and its jobs run on meanwhile.
struct OtherRelease {
  std::string lease;                 // "lockstep-system/lockstep"
  std::set<std::string> namespaces;  // whose jobs it serves; empty: all
  bool is_older = false;             // than ours

  friend bool operator==(const OtherRelease&, const OtherRelease&) = default;
};

// Queues that another release serves, each with why. A release counts the jobs that it serves and
// no others, so all queues that share a quota, a queue with all above, below and beside it, are
// served by one: the oldest of those that serve a namespace whose jobs may be in one of them.
std::map<std::string, std::string> QueuesServedElsewhere(const std::vector<StoredQueue>& queues,
                                                         const std::set<std::string>& own,
                                                         const std::vector<OtherRelease>& others);

}  // namespace lockstep::control
