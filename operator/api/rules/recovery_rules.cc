#include "operator/api/rules/recovery_rules.h"

#include <algorithm>
#include <cstddef>

#include "operator/api/fields/fields.h"

namespace lockstep::control {
namespace {

void CheckHungAfter(const TrainingJobSpec& spec, std::vector<Error>* errors) {
  const std::string field = "spec.recovery.hungAfterSeconds";
  if (spec.training) {
    AddError(errors,
             field,
             "is only for jobs that run a command, and cannot be used with spec.training; the "
             "built-in trainer detects hung ranks by silentAfterSeconds");
    return;
  }
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    const RoleSpec& role = spec.roles[i];
    const bool has_ranks = role.name == Role::kChief || role.name == Role::kWorker;
    if (has_ranks && !role.supervise) {
      AddError(
          errors,
          field,
          "found, but spec.roles[" + std::to_string(i) +
              "] has supervise: false, so nothing watches its processes; expected supervise: true");
    }
  }
}

}  // namespace

std::vector<Error> RecoveryErrors(const TrainingJobSpec& spec) {
  const RecoverySpec& recovery = spec.recovery;
  std::vector<Error> errors;
  if (recovery.silent_after >= recovery.replacement_timeout) {
    AddError(&errors,
             "spec.recovery.silentAfterSeconds",
             "must be less than replacementTimeoutSeconds: the loss of a rank must be noticed "
             "before its replacement can start");
  }
  if (recovery.hung_after.has_value()) {
    CheckHungAfter(spec, &errors);
  }
  if (recovery.relaunch) {
    for (const std::string& why : WhyNoRelaunch(spec)) {
      AddError(&errors, "spec.recovery.relaunch", why);
    }
  }
  return errors;
}

std::vector<std::string> WhyNoRelaunch(const TrainingJobSpec& spec) {
  const auto has = [&spec](auto is_so) {
    return std::any_of(spec.roles.begin(), spec.roles.end(), [&](const RoleSpec& role) {
      return role.name != Role::kEvaluator && is_so(role);
    });
  };
  std::vector<std::string> reasons;
  if (spec.training.has_value()) {
    reasons.emplace_back(
        "is only for jobs that run a command, and cannot be used with spec.training; the built-in "
        "trainer replaces lost ranks while the others continue");
  }
  if (spec.strategy == Strategy::kHorovod) {
    reasons.emplace_back(
        "cannot be used with strategy Horovod, whose rendezvous lets each rank start only once; "
        "remove relaunch");
  }
  // A ps of the built-in trainer is no further reason: what would have to go is the training.
  if (!spec.training.has_value() &&
      has([](const RoleSpec& role) { return role.name == Role::kPs; })) {
    reasons.emplace_back(
        "cannot be used with a role ps, whose programs cannot restart within their pods; remove "
        "relaunch");
  }
  if (has([](const RoleSpec& role) { return !role.supervise; })) {
    reasons.emplace_back(
        "found, but a role that trains has supervise: false, so nothing can restart its programs; "
        "expected supervise: true");
  }
  if (has([](const RoleSpec& role) { return role.restart_policy == RestartPolicy::kNever; })) {
    reasons.emplace_back(
        "found, but a role that trains has restartPolicy Never, which allows no restart; expected "
        "another restartPolicy");
  }
  return reasons;
}

bool MayRelaunch(const TrainingJobSpec& spec) {
  return spec.recovery.relaunch && WhyNoRelaunch(spec).empty();
}

bool HoldsItsEnd(const TrainingJobSpec& spec, Role role) {
  return IsRank(role) && MayRelaunch(spec);
}

}  // namespace lockstep::control
