#include "operator/cli/run/without_cluster.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {
namespace {

constexpr const char* kUnusedOfContainers[] = {
    "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"};

// What is missing, and how to help it; empty if nothing is.
std::string Take(const ShellVariable& shell, const EnvironmentSource& source, PodTemplate* pod) {
  if (IsKnownWithoutCluster(source)) {
    return "";
  }
  const std::string where = source.path + ": a " + source.kind + " exists only on a cluster";
  if (source.variable.empty()) {
    return source.is_optional ? "" : where + "; on one machine list its variables in env";
  }
  if (auto value = shell(source.variable)) {
    pod->env[source.variable] = *std::move(value);
    return "";
  }
  return source.is_optional ? ""
                            : where + "; on one machine set " + source.variable +
                                  " in the environment of lockstep run";
}

}  // namespace

Status TakeClusterValues(const ShellVariable& shell, TrainingJob* job) {
  std::string missing;
  for (RoleSpec& role : job->spec.roles) {
    for (const EnvironmentSource& source : role.pod.env_sources) {
      const std::string problem = Take(shell, source, &role.pod);
      missing += (missing.empty() || problem.empty() ? "" : "\n") + problem;
    }
  }
  return missing.empty() ? OkStatus() : Status(Error(ErrorCode::kInvalidArgument, missing));
}

std::string WhyItWouldOnlyWait(const TrainingJob& job) {
  const RunPolicy& policy = job.spec.run_policy;
  if (policy.suspend) {
    return "spec.runPolicy.suspend: true found, but nobody can resume a job on one machine; run it "
           "with --set runPolicy.suspend=false";
  }
  if (!IsOurs(job)) {
    return "spec.runPolicy.managedBy: \"" + policy.managed_by +
           "\" found, but no other controller runs on one machine; run the job with --set "
           "runPolicy.managedBy=null";
  }
  return "";
}

std::string InitContainersOf(const TrainingJob& job) {
  std::string names;
  for (const RoleSpec& role : job.spec.roles) {
    for (const InitContainer& container : role.pod.init_containers) {
      names += (names.empty() ? "" : ", ") + container.name;
    }
  }
  return names;
}

std::string UnusedPodFieldsOf(const TrainingJob& job) {
  std::vector<std::string> found;
  const auto add = [&found](const std::string& field) {
    if (std::find(found.begin(), found.end(), field) == found.end()) {
      found.push_back(field);
    }
  };
  for (const RoleSpec& role : job.spec.roles) {
    const Json& spec = role.pod.raw->value("spec", Json::object());
    for (const char* field : {"volumes", "securityContext"}) {
      if (spec.contains(field)) {
        add(field);
      }
    }
    for (const Json& container : spec.value("containers", Json::array())) {
      for (const char* field : kUnusedOfContainers) {
        if (container.contains(field)) {
          add(field);
        }
      }
      const std::string name = container.value("name", "");
      if (name != role.pod.trainer_name) {
        add("container " + name);
      }
    }
  }
  std::string text;
  for (const std::string& field : found) {
    text += (text.empty() ? "" : ", ") + field;
  }
  return text;
}

std::string UnusedSchedulingOf(const TrainingJob& job) {
  const SchedulingSpec& scheduling = job.spec.scheduling;
  std::string text = scheduling.queue.empty() ? "" : "queue";
  if (!scheduling.priority_class_name.empty()) {
    text += std::string(text.empty() ? "" : ", ") + "priorityClassName";
  }
  if (scheduling.provisioning != Provisioning::kNone) {
    text += std::string(text.empty() ? "" : ", ") + "provisioning";
  }
  if (scheduling.binding == PodBinding::kNative) {
    text += std::string(text.empty() ? "" : ", ") + "binding";
  }
  return text;
}

}  // namespace lockstep::control
