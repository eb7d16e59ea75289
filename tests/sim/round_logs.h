#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operator/scheduler/state_event.h"
#include "tests/sim/simulation.h"

namespace lockstep::control::sim {

// What operators of one run keep of their rounds of scheduling, in memory.
class RoundLogs {
 public:
  // A log of its own for each process, which is told of these levels of nodes. This outlives what
  // is returned.
  std::unique_ptr<StateRecorder> Begin(const std::string& identity,
                                       std::vector<std::string> levels);

  // Decides all of it again, when every operator has gone. Returns the first difference, or what is
  // wrong with a log; empty: nothing.
  std::string Replay(Tally* tally) const;

 private:
  std::vector<std::pair<std::string, std::unique_ptr<std::string>>> logs_;  // by identity
};

}  // namespace lockstep::control::sim
