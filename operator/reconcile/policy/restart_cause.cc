#include "operator/reconcile/policy/restart_cause.h"

#include "common/contract/exit_code.h"

namespace lockstep::control {

std::vector<std::string_view> RestartCauses() {
  std::vector<std::string_view> causes;
  for (const ExitCause cause : kExitCauses) {
    causes.push_back(ExitCauseName(cause));
  }
  for (std::size_t i = 0; i < kOutsideCauseCount; ++i) {
    causes.push_back(OutsideCauseName(static_cast<OutsideCause>(i)));
  }
  return causes;
}

}  // namespace lockstep::control
