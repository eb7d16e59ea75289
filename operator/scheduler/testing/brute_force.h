#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::control {

class StateRecorder;

// What random small clusters came to.
struct BruteForceTally {
  int64_t granted = 0;
  int64_t refused = 0;  // for want of room
  int64_t over_quota = 0;
  int64_t out_of_turn = 0;
  int64_t evicted = 0;
};

// One random cluster of at most 6 nodes and 4 gangs with all constraints there are, some of whose
// gangs end between rounds, held against an oracle that tries every node for every pod and knows
// nothing of the scheduler's code:
//   a place is found exactly where there is one; where gangs may be evicted, exactly where there is
//   one without those of lower priority; no node is overcommitted; topology, selectors, taints and
//   quotas are kept; a gang that fits an empty cluster always fits what younger ones leave.
// Returns what is wrong; empty: nothing. `recorder` hears of all of it; null: nobody does.
std::string WrongInCase(uint64_t seed, BruteForceTally* tally, StateRecorder* recorder = nullptr);

// Of all these clusters.
std::vector<std::string> BruteForceLevels();

}  // namespace lockstep::control
