#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "operator/round_log/log_line.h"
#include "operator/scheduler/round.h"

namespace lockstep::control {

// Where a round comes to something else than what the log says.
struct RoundDifference {
  int64_t line = 0;      // of the log, from 1
  int64_t round = 0;     // from 1
  int64_t decision = 0;  // of the round, from 1
  std::string recorded;  // empty: there is none any more
  std::string decided;   // likewise
};

// Reads a round log and decides all of it again.
// Thread: one.
class RoundLogPlayer {
 public:
  // `name` is what errors call the log; `input` outlives this.
  RoundLogPlayer(std::istream* input, std::string name);

  // Goes on to the end of the next round and carries it out, unless it came to something else than
  // the log says. False: there is none.
  // Errors: kCorrupt "NAME:LINE: why" of a line that is no such line or too long, that was changed,
  // or ends too early; of one after the last, or a log without its first.
  Result<bool> NextRound();

  int64_t round_count() const { return round_count_; }

  int64_t event_count() const { return event_count_; }

  int64_t decision_count() const { return decision_count_; }

  // Of the round that came last.
  const std::optional<RoundDifference>& difference() const { return difference_; }

  WallTime now() const { return now_; }

  // Why the log ends: "stopped", "full". Empty: its last line is not there, or not read yet.
  const std::string& end() const { return end_; }

  // After the round that came last; null before the log's first line.
  const ClusterState* state() const { return state_ ? &*state_ : nullptr; }

 private:
  Error At(const std::string& why) const;
  // False: there is none.
  Result<bool> ReadLine();
  Status Begin(const LogBegin& begin);
  void Decide(const LogRound& round);

  std::istream* input_;
  std::string name_;
  std::string text_;  // of the line
  int64_t line_count_ = 0;
  LineChain chain_;
  std::optional<ClusterState> state_;
  RoundMemory memory_;
  WallTime now_{};
  int64_t round_count_ = 0;
  int64_t event_count_ = 0;
  int64_t decision_count_ = 0;
  std::optional<RoundDifference> difference_;
  std::string end_;
};

}  // namespace lockstep::control
