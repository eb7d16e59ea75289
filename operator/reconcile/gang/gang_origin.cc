#include "operator/reconcile/gang/gang_origin.h"

#include "common/base/digest.h"
#include "common/json/json.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {
namespace {

Json DescribeRole(const RoleSpec& role) {
  Json described = {{"name", RoleName(role.name)},
                    {"gpus", role.gpus},
                    {"processes", role.processes},
                    {"supervise", role.supervise},
                    {"template", *role.pod.raw}};
  if (!role.warm.empty()) {  // left out, gangs of earlier versions stay as they are
    described["warm"] = role.warm;
  }
  if (role.launcher.has_value()) {  // likewise
    described["launcher"] = NameOf(kProcessLauncherNames, *role.launcher);
  }
  if (role.gpu_visibility.has_value()) {  // likewise
    described["gpuVisibility"] = NameOf(kGpuVisibilityNames, *role.gpu_visibility);
  }
  if (role.shared_memory.has_value()) {  // likewise
    described["sharedMemory"] = *role.shared_memory;
  }
  return described;
}

// What of `recovery` pods are told; the rest is the operator's own affair.
Json DescribePatience(const RecoverySpec& recovery) {
  Json described = {{"rendezvousTimeout", recovery.rendezvous_timeout.count()},
                    {"silentAfter", recovery.silent_after.count()}};
  if (recovery.hung_after.has_value()) {  // left out, gangs of earlier versions stay as they are
    described["hungAfter"] = recovery.hung_after->count();
  }
  return described;
}

}  // namespace

std::string RevisionOf(const TrainingJobSpec& spec) {
  Json roles = Json::array();
  for (const RoleSpec& role : spec.roles) {
    roles.push_back(DescribeRole(role));
  }
  Json described = {
      {"strategy", StrategyName(spec.strategy)},
      {"training", spec.training.has_value() ? EncodeTrainingSpec(*spec.training) : Json()},
      {"roles", std::move(roles)},
      {"patience", DescribePatience(spec.recovery)},
      {"priorityClass", spec.scheduling.priority_class_name}};
  if (spec.scheduling.binding != PodBinding::kAffinity) {
    // left out, gangs of earlier versions stay as they are
    described["binding"] = PodBindingName(spec.scheduling.binding);
  }
  return Sha256Hex(DumpJson(described)).substr(0, kRevisionDigits);
}

std::string RevisionOf(const TrainingJob& job) {
  return job.revision.empty() ? RevisionOf(job.spec) : job.revision;
}

GangOrigin OriginNow(const TrainingJob& job, const PodSettings& settings) {
  return {job.metadata.generation,
          RevisionOf(job),
          settings.runtime_image,
          QueueOf(job.spec),
          PriorityClassOf(job.spec)};
}

bool IsOutdated(const TrainingJob& job, const GangOrigin& origin) {
  const bool is_other_share = !origin.queue.empty() && origin.queue != QueueOf(job.spec);
  return origin.generation != job.metadata.generation &&
         (is_other_share || origin.revision != RevisionOf(job));
}

}  // namespace lockstep::control
