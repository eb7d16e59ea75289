#include "operator/convert/launch_variables.h"

#include <algorithm>
#include <string>

#include "operator/api/pod_template.h"

namespace lockstep::control {
namespace {

// The container's variables; empty where they are no list, which the job's decoder refuses.
Json VariablesOf(const ConvertedPod& pod) {
  const Json& container = pod.spec.at("containers").at(0);
  const auto env = container.find("env");
  return env != container.end() && env->is_array() ? *env : Json::array();
}

// Where `name` stands among them; their count: nowhere.
std::size_t IndexOf(const std::string& name, const Json& variables) {
  const auto found = std::find_if(variables.begin(), variables.end(), [&](const Json& one) {
    return one.is_object() && one.value("name", Json()) == name;
  });
  return static_cast<std::size_t>(found - variables.begin());
}

std::string PathInRole(std::size_t index) {
  return std::string(kContainerInRole) + ".env[" + std::to_string(index) + "]";
}

// Where a variable of the pod stands in the foreign manifest.
std::string ForeignPath(const ConvertedPod& pod, std::size_t index) {
  const auto found =
      std::find_if(pod.origins.rbegin(), pod.origins.rend(), [&](const FieldOrigin& origin) {
        return origin.of_job == PathInRole(index);
      });
  return found != pod.origins.rend() ? found->foreign
                                     : pod.container_path + ".env[" + std::to_string(index) + "]";
}

void Put(const Json& variable,
         const std::string& foreign,
         ConvertedPod* pod,
         Conversion* conversion) {
  Json variables = VariablesOf(*pod);
  const std::string name = variable.at("name").get<std::string>();
  const std::size_t index = IndexOf(name, variables);
  if (index == variables.size()) {
    variables.push_back(variable);
  } else if (variables[index] != variable) {
    conversion->notes.push_back(
        {ForeignPath(*pod, index),
         "not kept: mpirun gave every rank its own " + name + ", and so does the job"});
    variables[index] = variable;
  }
  pod->container()["env"] = std::move(variables);
  pod->origins.push_back({PathInRole(index), foreign});
}

}  // namespace

void SetVariables(const LaunchCommand& command,
                  const ConvertedPod& launcher,
                  ConvertedPod* pod,
                  Conversion* conversion) {
  const std::string command_path = launcher.container_path + ".command";
  const auto is_ours = [&](const std::string& name) {
    if (IsReservedVariable(name)) {
      conversion->notes.push_back({command_path, name + " is not kept: Lockstep sets it itself"});
    }
    return IsReservedVariable(name);
  };
  for (const auto& [name, value] : command.environment) {
    if (!is_ours(name)) {
      Put({{"name", name}, {"value", value}}, command_path, pod, conversion);
    }
  }
  const Json variables = VariablesOf(launcher);
  std::string unknown;
  for (const std::string& name : command.handed_on) {
    const std::size_t index = IndexOf(name, variables);
    if (is_ours(name)) {
      continue;
    }
    if (index == variables.size()) {
      unknown += (unknown.empty() ? "" : ", ") + name;
    } else {
      Put(variables[index], ForeignPath(launcher, index), pod, conversion);
    }
  }
  if (!unknown.empty()) {
    conversion->notes.push_back(
        {command_path,
         unknown + ": not handed on from the launcher, whose image had the value: every worker has "
                   "what its own image or template says"});
  }
}

}  // namespace lockstep::control
