#include "operator/cli/run/stop_stage.h"

#include <csignal>

namespace lockstep::control {

StopStage AfterSignal(StopStage stage, int signal) {
  if (stage == StopStage::kNone) {
    return StopStage::kGraceful;
  }
  return signal == SIGHUP ? stage : StopStage::kKill;
}

}  // namespace lockstep::control
