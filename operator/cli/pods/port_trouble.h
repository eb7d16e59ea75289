#pragma once

#include <optional>
#include <string>

#include "common/base/strong_id.h"
#include "common/base/time.h"

namespace lockstep::control {

// Ports of the run that another process has. One of a pod that was killed gives its port back in a
// moment, so that is waited for; then the gang is to have other ports, a few times. Pure
// bookkeeping. Thread: one.
class PortTrouble {
 public:
  // So many times a run gets other ports. Choice: who takes them five times looks for them.
  static constexpr int kMovesMax = 5;

  // Pods were to be made. `taken`: what is said of the first port that another process has; null
  // when no pod lacks one. `is_fixed`: the manifest asks for that port, and no other will do.
  void Note(const std::optional<std::string>& taken, bool is_fixed, TimePoint now);

  // A pod of the attempt has ended as it found its port taken: that is waited for no longer. Of an
  // attempt's pods the first counts: those that follow have had the same ports.
  void NoteEnd(const std::string& said, Attempt attempt);

  // No pod is to be made before; null when there is nothing to wait for.
  std::optional<TimePoint> pause_end() const { return pause_end_; }

  // The gang is to have other ports: because of what. Once for each time.
  std::optional<std::string> TakeMove();

  // Why the run cannot be carried out; null while it may.
  const std::optional<std::string>& verdict() const { return verdict_; }

  // What people should know, once for each port.
  std::optional<std::string> TakeWarning();

 private:
  void Move(const std::string& why);

  std::optional<TimePoint> since_;  // when the trouble began; null: there is none
  std::optional<TimePoint> pause_end_;
  std::optional<std::string> move_;
  std::optional<std::string> verdict_;
  std::optional<std::string> warning_;
  int moves_ = 0;
  std::optional<Attempt> newest_ended_;  // that a pod has ended of so
};

}  // namespace lockstep::control
