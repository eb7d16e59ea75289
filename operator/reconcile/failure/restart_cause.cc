#include "operator/reconcile/failure/restart_cause.h"

#include <algorithm>

#include "common/contract/status/exit_code.h"

namespace lockstep::control {

std::vector<std::string_view> RestartCauses() {
  std::vector<std::string_view> causes;
  for (const ExitCause cause : kExitCauses) {
    causes.push_back(ExitCauseName(cause));
  }
  for (std::size_t i = 0; i < kOutsideCauseCount; ++i) {
    const std::string_view name = OutsideCauseName(static_cast<OutsideCause>(i));
    // A hang is told by an exit code where the runtime has found it.
    if (std::find(causes.begin(), causes.end(), name) == causes.end()) {
      causes.push_back(name);
    }
  }
  return causes;
}

}  // namespace lockstep::control
