#include "operator/cli/without_cluster.h"

#include "operator/reconcile/build/pod.h"

namespace lockstep::control {
namespace {

// What is missing, and how to help it; empty if nothing is.
std::string Take(const ShellVariable& shell, const EnvironmentSource& source, PodTemplate* pod) {
  if (IsKnownWithoutCluster(source)) {
    return "";
  }
  const std::string where = source.path + ": a " + source.kind + " is read by a cluster";
  if (source.variable.empty()) {
    return source.is_optional ? "" : where + "; on one machine name its variables in env";
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

std::string InitContainersOf(const TrainingJob& job) {
  std::string names;
  for (const RoleSpec& role : job.spec.roles) {
    for (const InitContainer& container : role.pod.init_containers) {
      names += (names.empty() ? "" : ", ") + container.name;
    }
  }
  return names;
}

}  // namespace lockstep::control
