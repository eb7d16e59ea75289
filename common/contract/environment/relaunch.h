#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/strong_id.h"

namespace lockstep {

// A gang of a command starts anew without new pods: the programs of all pods end, are held until
// all have ended, and start again. Each time is a *relaunch* of the attempt, counted from 1.

// Choice: well below what one pod may start (kStartsPerPodMax); after so many the gang gets new
// pods.
inline constexpr int64_t kRelaunchesMax = 100;

// How the programs of a pod ended that wait for a relaunch.
struct HeldEnd {
  int exit_code = 0;       // what the pod would have ended with; 0: they were only halted
  int signal = 0;          // 0 where none ended it
  double seconds_ago = 0;  // since the first of them failed, or all had ended
  std::string message;     // the pod's last words, as it would have left them
  // The same moment by CLOCK_MONOTONIC, comparable between processes of one host. Absent in pods of
  // an earlier release.
  std::optional<int64_t> monotonic_ns = std::nullopt;

  friend bool operator==(const HeldEnd&, const HeldEnd&) = default;
};

// Which start of the gang programs are of, as LOCKSTEP_ATTEMPT and LOCKSTEP_EPOCH tell them.
struct GangStart {
  Attempt attempt;
  Epoch epoch;

  friend bool operator==(const GangStart&, const GangStart&) = default;
};

// The attempt as programs see it: each relaunch counts as a start of the gang. The attempt after
// one that was relaunched is higher than all of these.
inline Attempt AttemptOfPrograms(Attempt pods, int64_t relaunches) {
  return Attempt(pods.value() + relaunches);
}

}  // namespace lockstep
