#include "operator/scheduler/state/round_result.h"

#include "common/base/rfc3339.h"

namespace lockstep::control {

void Commit(const RoundResult& result, WallTime now, ClusterState* state) {
  for (const Operation& operation : result.log) {
    state->Apply(operation, now);
  }
  for (const Refusal& refusal : result.refusals) {
    state->Tell(refusal.gang, refusal.why);
  }
  for (const std::string& gang : result.confirmed) {
    state->Tell(gang, Unschedulable(*state->Find(gang)->told));
  }
}

std::string ToText(const RoundResult& result) {
  std::string text;
  for (const Operation& operation : result.log) {
    text += ToText(operation) + "\n";
  }
  for (const Refusal& refusal : result.refusals) {
    text += "refuse " + refusal.gang + ": " + refusal.why.shortfall;
    text += refusal.why.not_asked.empty() ? "\n" : "; " + refusal.why.not_asked + "\n";
  }
  for (const PermissionNeed& need : result.permissions_needed) {
    text += "ask whether " + need.gang + " may create its pods\n";
  }
  if (result.look_again_at) {
    text += "look again at " + FormatRfc3339(*result.look_again_at) + "\n";
  }
  return text;
}

}  // namespace lockstep::control
