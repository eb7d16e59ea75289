#include "operator/api/rules/scheduling_rules.h"

#include <cstddef>
#include <string>
#include <utility>

#include "common/contract/text/problems.h"
#include "operator/api/fields/fields.h"

namespace lockstep::control {
namespace {

constexpr const char* kDefaultScheduler = "default-scheduler";  // of pods that name none

std::string SchedulerOf(const RoleSpec& role) {
  const Json::json_pointer where("/spec/schedulerName");
  const bool names_one = role.pod.raw->contains(where) && role.pod.raw->at(where).is_string();
  return names_one ? role.pod.raw->at(where).get<std::string>() : kDefaultScheduler;
}

std::string SchedulerPath(std::size_t role) {
  return "spec.roles[" + std::to_string(role) + "].template.spec.schedulerName";
}

// A pod that is born with its node is shown to no scheduler.
void CheckDirect(const TrainingJobSpec& spec, std::vector<Error>* errors) {
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    const std::string scheduler = SchedulerOf(spec.roles[i]);
    if (scheduler != kDefaultScheduler) {
      AddError(errors,
               SchedulerPath(i),
               Quoted(scheduler) +
                   " found, but with scheduling.binding: Direct, no scheduler sees the pod; use "
                   "binding: Affinity, or remove schedulerName");
    }
  }
}

// kube-scheduler places a gang by one profile, and knows no topology of ours.
void CheckNative(const TrainingJobSpec& spec, std::vector<Error>* errors) {
  const TopologySpec& topology = spec.scheduling.topology;
  for (const auto& [name, level] :
       {std::pair("required", &topology.required), std::pair("preferred", &topology.preferred)}) {
    if (!level->empty()) {
      AddError(errors,
               std::string("spec.scheduling.topology.") + name,
               Quoted(*level) +
                   " found, but with scheduling.binding: Native, kube-scheduler chooses the nodes; "
                   "use binding: Affinity or Direct, or remove " +
                   name);
    }
  }
  for (std::size_t i = 1; i < spec.roles.size(); ++i) {
    const std::string first = SchedulerOf(spec.roles.front());
    const std::string own = SchedulerOf(spec.roles[i]);
    if (own != first) {
      AddError(errors,
               SchedulerPath(i),
               Quoted(own) + " found, and " + Quoted(first) +
                   " in spec.roles[0], but with scheduling.binding: Native, one scheduler places "
                   "the whole gang; use the same schedulerName in all roles");
    }
  }
}

}  // namespace

std::vector<Error> SchedulingErrors(const TrainingJobSpec& spec) {
  std::vector<Error> errors;
  if (spec.scheduling.binding == PodBinding::kDirect) {
    CheckDirect(spec, &errors);
  } else if (spec.scheduling.binding == PodBinding::kNative) {
    CheckNative(spec, &errors);
  }
  return errors;
}

}  // namespace lockstep::control
