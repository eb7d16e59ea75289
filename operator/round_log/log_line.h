#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "operator/scheduler/state/state_event.h"

namespace lockstep::control {

// What there is in a round log. One line for each: 16 hexadecimal digits, a blank and a JSON object
// of one member, whose name says what it is. The digits are a sum over all that stands before them
// and behind them in the line, so that a line that is changed, moved or left out is noticed; not
// one that somebody forges.

// The first line.
struct LogBegin {
  int64_t version = 0;
  std::vector<std::string> levels;  // ClusterState::Options
  bool is_one_machine = false;
};

// One round, and what it came to, each decision in words.
struct LogRound {
  WallTime now;
  RoundOptions options;
  std::vector<std::string> decisions;
};

// The last line, where the log was brought to its end: "stopped", "full".
struct LogEnd {
  std::string why;
};

using LogLine = std::variant<LogBegin, StateEvent, LogRound, LogEnd>;

// Another one for every change of what a line means.
inline constexpr int64_t kRoundLogVersion = 3;

// The longest line that is written or read. Choice: a gang of 100,000 pods.
inline constexpr std::size_t kLogLineBytesMax = std::size_t{32} << 20U;

// Every decision of the round, in the order in which they were made: operations, refusals with
// their constraint and their estimate, those confirmed, positions, whose pods
// the API server is to be asked about, and when to look again.
std::vector<std::string> DecisionsOf(const RoundResult& result);

// Writes and reads lines, one after the other, each without its line feed.
class LineChain {
 public:
  std::string Write(const LogLine& line);

  // Errors: kCorrupt.
  Result<LogLine> Read(std::string_view text);

 private:
  uint64_t sum_ = 0xcbf29ce484222325;  // FNV-1a's start
};

}  // namespace lockstep::control
