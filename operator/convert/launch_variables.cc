#include "operator/convert/launch_variables.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/base/name_list.h"
#include "operator/api/pod_template.h"
#include "operator/convert/variable_references.h"

namespace lockstep::control {
namespace {

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
  return pod.ForeignPathOf(PathInRole(index));
}

void Put(const Json& variable,
         Launcher launcher,
         const std::string& foreign,
         ConvertedPod* pod,
         Conversion* conversion) {
  Json variables = VariablesOf(*pod);
  const std::string name = variable.at("name").get<std::string>();
  const std::size_t index = IndexOf(name, variables);
  if (index == variables.size()) {
    variables.push_back(variable);
  } else if (variables[index] != variable) {
    conversion->notes.push_back({ForeignPath(*pod, index),
                                 "not kept: " + std::string(NameOf(launcher)) +
                                     " gave every rank its own " + name + ", and so does the job"});
    variables[index] = variable;
  }
  pod->container()["env"] = std::move(variables);
  pod->origins.push_back({PathInRole(index), foreign});
}

// The first `count` of them, as WrittenVariables has them.
std::map<std::string, std::string> WrittenValues(const Json& variables, std::size_t count) {
  std::map<std::string, std::string> known;
  for (std::size_t i = 0; i < std::min(count, variables.size()); ++i) {
    const Json& one = variables[i];
    const Json name = one.is_object() ? one.value("name", Json()) : Json();
    if (!name.is_string()) {
      continue;
    }
    known.erase(name.get<std::string>());
    const Json value = one.value("value", one.contains("valueFrom") ? Json() : Json(""));
    if (!value.is_string()) {
      continue;
    }
    InlinedValue inlined = InlineReferences(value.get<std::string>(), known);
    if (inlined.unknown.empty()) {
      known[name.get<std::string>()] = std::move(inlined.text);
    }
  }
  return known;
}

// References to what the launcher has from elsewhere. `of_what`: " in the value of A".
void NoteUnknownReferences(const std::vector<std::string>& references,
                           const std::string& of_what,
                           const std::string& field,
                           const ConvertedPod& worker,
                           Conversion* conversion) {
  const Json variables = VariablesOf(worker);
  for (const std::string& reference : references) {
    const std::string name = reference.substr(2, reference.size() - 3);  // of "$(NAME)"
    const bool is_set = IndexOf(name, variables) < variables.size();
    conversion->notes.push_back(
        {field,
         reference + of_what +
             (is_set ? " has the workers' own value: this file does not say the launcher's"
                     : " is not set in the workers and stays as text")});
  }
}

// A variable of the launcher's for a worker: Kubernetes reads its references in that container,
// which has others, or has them only later. `foreign`: where it is written.
Json ForWorker(Json variable,
               const std::map<std::string, std::string>& known,
               const std::string& foreign,
               const ConvertedPod& worker,
               Conversion* conversion) {
  const Json value = variable.value("value", Json());
  if (!value.is_string()) {
    return variable;
  }
  InlinedValue inlined = InlineReferences(value.get<std::string>(), known);
  if (inlined.has_changed) {
    variable["value"] = std::move(inlined.text);
  }
  NoteUnknownReferences(inlined.unknown,
                        " in the value of " + variable.at("name").get<std::string>(),
                        foreign,
                        worker,
                        conversion);
  return variable;
}

}  // namespace

std::map<std::string, std::string> WrittenVariables(const ConvertedPod& pod) {
  const Json variables = VariablesOf(pod);
  return WrittenValues(variables, variables.size());
}

std::vector<std::string> ProgramForWorker(const LaunchCommand& command,
                                          const ConvertedPod& launcher,
                                          const ConvertedPod& worker,
                                          Conversion* conversion) {
  const std::map<std::string, std::string> known = WrittenVariables(launcher);
  std::vector<std::string> words;
  std::vector<std::string> unknown;
  for (const std::string& word : command.program) {
    InlinedValue inlined = InlineReferences(word, known);
    words.push_back(inlined.has_changed ? std::move(inlined.text) : word);
    unknown.insert(unknown.end(), inlined.unknown.begin(), inlined.unknown.end());
  }
  NoteUnknownReferences(unknown, "", command.path, worker, conversion);
  return words;
}

void HandOnAll(const ConvertedPod& launcher, LaunchCommand* command, Conversion* conversion) {
  for (const Json& variable : VariablesOf(launcher)) {
    const Json name = variable.is_object() ? variable.value("name", Json()) : Json();
    const bool is_given = std::any_of(command->environment.begin(),
                                      command->environment.end(),
                                      [&](const auto& given) { return given.first == name; }) ||
                          std::find(command->handed_on.begin(), command->handed_on.end(), name) !=
                              command->handed_on.end();
    if (name.is_string() && !is_given) {
      command->handed_on.push_back(name.get<std::string>());
    }
  }
  if (!launcher.spec.at("containers").at(0).value("envFrom", Json()).is_null()) {
    conversion->notes.push_back(
        {launcher.container_path + ".envFrom",
         "not kept: the launcher gave every rank its variables; the workers' template has to have "
         "that envFrom"});
  }
}

void SetVariables(const LaunchCommand& command,
                  const ConvertedPod& launcher,
                  ConvertedPod* pod,
                  Conversion* conversion) {
  const std::string& command_path = command.path;
  const auto is_ours = [&](const std::string& name) {
    if (IsReservedVariable(name)) {
      conversion->notes.push_back({command_path, name + " is not kept: Lockstep sets it itself"});
    }
    return IsReservedVariable(name);
  };
  const bool is_same_pod = &launcher == pod;  // it has all that its variables refer to
  const Json variables = VariablesOf(launcher);
  for (const auto& [name, value] : command.environment) {
    if (is_ours(name)) {
      continue;
    }
    const Json variable = {{"name", name}, {"value", value}};
    Put(is_same_pod
            ? variable
            : ForWorker(variable, WrittenVariables(launcher), command_path, *pod, conversion),
        command.launcher,
        command_path,
        pod,
        conversion);
  }
  std::vector<std::string> unknown;
  for (const std::string& name : command.handed_on) {
    const std::size_t index = IndexOf(name, variables);
    if (is_ours(name) || (is_same_pod && index < variables.size())) {
      continue;
    }
    if (index == variables.size()) {
      unknown.push_back(name);
      continue;
    }
    const std::string foreign = ForeignPath(launcher, index);
    Put(ForWorker(variables[index], WrittenValues(variables, index), foreign, *pod, conversion),
        command.launcher,
        foreign,
        pod,
        conversion);
  }
  if (!unknown.empty() && !is_same_pod) {
    conversion->notes.push_back(
        {command_path,
         NameList(unknown) +
             ": not handed on, as the launcher has the value from its image or envFrom; a worker "
             "has what its own image, env and envFrom say"});
  }
}

}  // namespace lockstep::control
