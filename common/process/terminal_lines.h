#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"

namespace lockstep {

// What a program prints, as lines that a terminal would have shown: a carriage return goes back to
// the start of the line, and what comes then takes the place of what was there. Of a line that is
// overwritten again and again, such as a progress bar, one state is passed on every
// kOverwrittenPeriod, and the last one. Pure. Thread: one.
class TerminalLines {
 public:
  // Choice: often enough to see that a bar moves, and no flood in a log that is kept.
  static constexpr Duration kOverwrittenPeriod = std::chrono::seconds(5);

  using LineSink = std::function<void(std::string_view line)>;

  // A line longer than `line_bytes_max` goes on as a new one, so memory stays bounded.
  // Precondition (checked): line_bytes_max > 0.
  explicit TerminalLines(std::size_t line_bytes_max);

  // Takes the next bytes, which came at `now`, and passes on the lines they complete, without
  // newlines.
  void Append(std::string_view bytes, TimePoint now, const LineSink& sink);

  // The stream has ended: passes an unfinished line on.
  void Finish(const LineSink& sink);

 private:
  void EndLine(const LineSink& sink);
  void Overwrite(TimePoint now, const LineSink& sink);

  std::size_t line_bytes_max_;
  std::string line_;                   // unfinished
  bool is_at_start_ = false;           // a carriage return came: the next character begins anew
  std::optional<TimePoint> shown_at_;  // when a state that was overwritten was passed on
};

}  // namespace lockstep
