#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/time.h"

namespace lockstep::control {

// Pods that cannot be made on this machine: when they are tried again, and when the run is given
// up. A path that is no folder, or closed to this user, stays so (kInvalidArgument); what lacks
// room (disk, inodes, descriptors) may have it again in a moment. Pure bookkeeping. Thread: one.
class CreationTrouble {
 public:
  // Pods were to be made. `failure`: of the first that was not; null when all are there.
  void Note(const std::optional<Error>& failure, TimePoint now);

  // Nothing is to be tried before; null when there is nothing to wait for.
  std::optional<TimePoint> pause_end() const { return pause_end_; }

  // Why the run cannot be carried out; null while it may.
  const std::optional<std::string>& verdict() const { return verdict_; }

  // What people should know, once for each trouble.
  std::optional<std::string> TakeWarning();

 private:
  std::optional<TimePoint> since_;  // when the trouble began; null: there is none
  std::optional<TimePoint> pause_end_;
  std::optional<std::string> verdict_;
  std::optional<std::string> warning_;
};

}  // namespace lockstep::control
