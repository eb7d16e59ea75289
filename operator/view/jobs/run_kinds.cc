#include "operator/view/jobs/run_kinds.h"

#include <cstddef>

#include "common/base/digest.h"
#include "common/json/json.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_origin.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kKindDigits = 16;  // choice: kinds of one cluster never meet by chance

Json DescribeAmounts(const ResourceVector& amounts) {
  Json described = {{"cpuMilli", amounts.cpu_milli},
                    {"memoryBytes", amounts.memory_bytes},
                    {"gpus", amounts.gpu_count}};
  for (const NamedAmount& other : amounts.others) {
    described[std::string(other.name)] = other.amount;
  }
  return described;
}

std::string NameOf(const Json& kind) {
  return Sha256Hex(DumpJson(kind)).substr(0, kKindDigits);
}

}  // namespace

std::vector<std::string> KindsOf(const TrainingJob& job) {
  const std::string& space = job.metadata.namespace_name;
  Json counts = Json::array();
  Json shapes = Json::array();
  bool has_images = !job.spec.training.has_value();  // what our own trainer does is in the manifest
  for (const RoleSpec& role : job.spec.roles) {
    counts.push_back(role.replicas);
    shapes.push_back({{"role", RoleName(role.name)},
                      {"replicas", role.replicas},
                      {"gpus", role.gpus},
                      {"requests", DescribeAmounts(role.pod.requests)},
                      {"image", role.pod.image}});
    if (role.pod.pod_requests != ResourceVector()) {
      shapes.back()["podRequests"] = DescribeAmounts(role.pod.pod_requests);
    }
    has_images = has_images && !role.pod.image.empty();
  }
  std::vector<std::string> kinds = {
      NameOf({{"namespace", space}, {"manifest", RevisionOf(job)}, {"replicas", counts}})};
  if (has_images) {
    kinds.push_back(NameOf({{"namespace", space}, {"shapes", shapes}}));
  }
  return kinds;
}

bool IsRunOfManifest(const TrainingJob& job) {
  return job.status.origin.generation == job.metadata.generation;
}

std::optional<EndedRun> RunOf(const StoredJob& stored) {
  const TrainingJobStatus& status = stored.job.status;
  const bool ran_in_one_go =
      status.attempt == Attempt() && status.relaunch.count == 0 && IsRunOfManifest(stored.job);
  if (!stored.problem.empty() || !IsTrue(status, ConditionType::kSucceeded) || !ran_in_one_go ||
      !status.start_time.has_value() || !status.completion_time.has_value() ||
      *status.completion_time < *status.start_time) {
    return std::nullopt;
  }
  return EndedRun{*status.completion_time,
                  stored.job.metadata.uid,
                  *status.completion_time - *status.start_time};
}

}  // namespace lockstep::control
