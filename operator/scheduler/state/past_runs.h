#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::control {

// How long gangs of a kind ran of late that have ended.
struct PastRuns {
  int64_t count = 0;  // 0: none is known, and nothing is to be expected
  std::chrono::seconds shortest{0};
  std::chrono::seconds longest{0};  // rounded up, at least 1 s: so long the next is thought to run

  friend bool operator==(const PastRuns&, const PastRuns&) = default;
};

// "the last 3 runs of similar jobs took 41 to 44 min". Precondition: there is one at least.
std::string ToText(const PastRuns& runs);

}  // namespace lockstep::control
