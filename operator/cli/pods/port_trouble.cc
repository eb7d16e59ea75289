#include "operator/cli/pods/port_trouble.h"

#include <utility>

namespace lockstep::control {
namespace {

// Choices: a process of many threads that was killed has ended within some tenths of a second, on
// a busy machine within two; who restarts its own server beside a run sees the warning in time.
constexpr std::chrono::seconds kPortPatience{3};
constexpr Duration kPortPause = std::chrono::milliseconds(100);

}  // namespace

void PortTrouble::Note(const std::optional<std::string>& taken, bool is_fixed, TimePoint now) {
  pause_end_.reset();
  if (!taken) {
    since_.reset();
    return;
  }
  const bool is_new = !since_.has_value();
  since_ = since_.value_or(now);
  if (now - *since_ < kPortPatience) {
    pause_end_ = now + kPortPause;
    if (is_new) {
      warning_ = *taken + "; lockstep waits for the port for at most " +
                 std::to_string(kPortPatience.count()) + " s";
    }
    return;
  }
  since_.reset();
  if (is_fixed) {
    verdict_ = *taken + "; the manifest asks for that port, so the run cannot use another";
  } else {
    Move(*taken);
  }
}

void PortTrouble::NoteEnd(const std::string& said, Attempt attempt) {
  if (!newest_ended_ || attempt > *newest_ended_) {
    newest_ended_ = attempt;
    Move(said);
  }
}

void PortTrouble::Move(const std::string& why) {
  if (moves_ == kMovesMax) {
    verdict_ =
        why + "; the run has already changed its ports " + std::to_string(kMovesMax) + " times";
    return;
  }
  ++moves_;
  move_ = why;
}

std::optional<std::string> PortTrouble::TakeMove() {
  return std::exchange(move_, std::nullopt);
}

std::optional<std::string> PortTrouble::TakeWarning() {
  return std::exchange(warning_, std::nullopt);
}

}  // namespace lockstep::control
