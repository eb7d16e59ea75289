#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operator/scheduler/state/state_event.h"
#include "tests/sim/simulation.h"

namespace lockstep::control::sim {

// The logs of scheduling rounds that the operators of one run write, in memory.
class RoundLogs {
 public:
  // A new log for one operator process; `levels` are the topology labels of its nodes. Must outlive
  // the recorder that it returns.
  std::unique_ptr<StateRecorder> Begin(const std::string& identity,
                                       std::vector<std::string> levels);

  // Decides every round again, once no operator runs. Returns the first difference, or what is
  // wrong with a log; empty if all is equal.
  std::string Replay(Tally* tally) const;

 private:
  std::vector<std::pair<std::string, std::unique_ptr<std::string>>> logs_;  // by identity
};

}  // namespace lockstep::control::sim
