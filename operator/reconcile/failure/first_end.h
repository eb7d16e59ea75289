#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status/exit_code.h"

namespace lockstep::control {

// A program that loses a peer often ends for it, a millisecond later: its end is the echo of the
// loss (operator/reconcile/failure/echo.h). Of all that have ended before a gang starts anew, the
// first is what it starts anew for.

// How one program ended, and when, by a clock that all of them have in common; null: nobody says.
struct ProgramEnd {
  ExitCause cause = ExitCause::kUnknown;
  std::optional<TimePoint> at;
};

// A runtime sees an end when the machine has it run, so two that are no further apart may have come
// the other way round. Choice: what a process waits for its turn where each core has two others.
inline constexpr Duration kEndDoubt = std::chrono::milliseconds(10);

// A program that was killed from outside is nobody's echo, and what ends by itself within so short
// a time most likely is its. Choice: a machine that swaps may see the echo sooner by most of it.
inline constexpr Duration kKilledDoubt = std::chrono::seconds(1);

// What a gang starts anew for.
struct FirstEnded {
  std::vector<std::size_t> indexes;  // of the ends, in order
  // All of these, as no one is another's echo: how far apart they were seen. Null: one of them, and
  // of several nobody can tell which.
  std::optional<Duration> all_within;

  friend bool operator==(const FirstEnded&, const FirstEnded&) = default;
};

// Which ended first, as far as that is known: of those that were killed, unless others had clearly
// ended before, the earliest, with all that were killed too close to it to tell; else the earliest,
// or one of it and others that ended too close to it: by `doubt` or less. Precondition (checked):
// `ends` is not empty.
FirstEnded FirstEnds(const std::vector<ProgramEnd>& ends, Duration doubt = kEndDoubt);

}  // namespace lockstep::control
