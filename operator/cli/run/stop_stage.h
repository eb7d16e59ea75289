#pragma once

namespace lockstep::control {

// How far the stop of a run has come.
enum class StopStage {
  kNone,
  kGraceful,  // the pods were asked to end, and have their grace period
  kKill       // they are killed
};

// The stage after `signal` came in `stage`. The first asks, the next one that a person sends kills.
// A hang-up never kills: one closed terminal sends it several times, from the kernel and from the
// shell, and after a ^C as well. Pure.
StopStage AfterSignal(StopStage stage, int signal);

}  // namespace lockstep::control
