#pragma once

#include "common/base/time.h"

namespace lockstep {

// When a process that says nothing is given up. All who wait for a process's word go by this rule:
// its peers, the runtime in front of it, and `lockstep run`. Pure.
//
// A silent process is *suspected* after `silent_after` (1.5 s by default). It is given up at once
// when a second witness agrees: the kernel, which says that it is stopped, or a peer that does not
// hear it either. A single witness waits for `act`. A process that the kernel does not let run is
// excused, up to `hard`. Source of the limits: choice, as fractions of 1.5 s.

// What is known of a silent process beside its silence.
enum class Sight {
  kUnseen,    // nothing: it is on another host, or the kernel does not tell
  kRunning,   // it sleeps or runs, and nothing keeps it from that
  kStrained,  // the same, but processes of its host wait for a core nearly all the time
  kStarved,   // it wants to run, and the kernel does not let it
  kStopped,   // a signal or a debugger has stopped it, or it has ended
};

struct SilenceLimits {
  Duration suspect{};
  Duration act{};   // 5 s by default, more where many processes share a core
  Duration hard{};  // 30 s by default; no excuse counts after that
  Duration look{};  // between two looks at a silent one: 250 ms by default, more where many starve
};

// `processes_per_core`: on the host of the process that is waited for. Up to four change nothing.
SilenceLimits LimitsOf(Duration silent_after, double processes_per_core);

// How long the loss of a process takes to be reported at most, unless the process has an excuse.
Duration LossNoticedWithin(Duration silent_after);

// Whether a process that has heard nothing from a peer for `silent` reports it to the others. It
// does not report a peer that has an excuse.
bool IsSuspect(Duration silent, const SilenceLimits& limits, Sight sight);

// Whether a process that has said nothing for `silent` is given up. `is_missed_by_others`: a second
// one does not hear it either.
bool IsGivenUp(Duration silent,
               const SilenceLimits& limits,
               Sight sight,
               bool is_missed_by_others = false);

}  // namespace lockstep
