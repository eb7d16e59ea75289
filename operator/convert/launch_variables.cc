#include "operator/convert/launch_variables.h"

#include <algorithm>
#include <vector>

#include "common/base/name_list.h"
#include "operator/api/job/pod_template.h"
#include "operator/api/job/variable_references.h"

namespace lockstep::control {
namespace {

// The first `count` of them, as WrittenVariables has them.
std::map<std::string, std::string> WrittenValues(const Json& variables, std::size_t count) {
  std::map<std::string, std::string> known;
  for (std::size_t i = 0; i < std::min(count, variables.size()); ++i) {
    const Json& one = variables[i];
    const Json name = MemberOf(one, "name");
    if (!name.is_string()) {
      continue;
    }
    known.erase(name.get<std::string>());
    const Json value = one.value("value", one.contains("valueFrom") ? Json() : Json(""));
    if (!value.is_string()) {
      continue;
    }
    InlinedText inlined = InlineReferences(value.get<std::string>(), known);
    if (inlined.unknown.empty()) {
      known[name.get<std::string>()] = std::move(inlined.text);
    }
  }
  return known;
}

}  // namespace

std::map<std::string, std::string> WrittenVariables(const ConvertedPod& pod) {
  const Json variables = VariablesOf(pod);
  return WrittenValues(variables, variables.size());
}

namespace {

// Hands what stands in the launcher's pod on to a worker.
class HandingOn {
 public:
  HandingOn(const LaunchCommand& command,
            const ConvertedPod& launcher,
            ConvertedPod* pod,
            Conversion* conversion)
      : command_(command),
        launcher_(launcher),
        variables_(VariablesOf(launcher)),
        known_(WrittenVariables(launcher)),
        pod_(pod),
        conversion_(conversion) {}

  void SetProgram() {
    Json words = Json::array();
    for (const std::string& word : command_.program) {
      words.push_back(ForWorker(word, known_, "", command_.path));
    }
    pod_->container()["command"] = std::move(words);
    pod_->container().erase("args");
  }

  void SetVariables() {
    std::vector<std::string> unknown;
    for (const auto& [name, value] : command_.variables) {
      const std::size_t index = IndexOfVariable(name, variables_);
      if (IsReservedVariable(name)) {
        Note(command_.path, name + " is not kept: Lockstep sets it itself");
      } else if (value.has_value()) {
        Put({{"name", name}, {"value", *value}}, known_, command_.path);
      } else if (index == variables_.size()) {
        unknown.push_back(name);
      } else if (!IsSamePod()) {
        Put(variables_[index],
            WrittenValues(variables_, index),
            launcher_.ForeignPathOf(PathOfVariable(index)));
      }
    }
    if (!unknown.empty() && !IsSamePod()) {
      Note(command_.path,
           NameList(unknown) +
               ": not passed on, because the launcher takes the value from its image or envFrom; a "
               "worker uses the value of its own image, env or envFrom");
    }
  }

 private:
  bool IsSamePod() const { return &launcher_ == pod_; }  // it has all that is referred to

  void Note(const std::string& field, std::string text) {
    conversion_->notes.push_back({field, std::move(text)});
  }

  // `text`, at `foreign`, in which the first `count` variables of the launcher are known:
  // Kubernetes reads its references in the worker, which has others, or has them only later.
  std::string ForWorker(const std::string& text,
                        const std::map<std::string, std::string>& known,
                        const std::string& of_what,
                        const std::string& foreign) {
    if (IsSamePod()) {
      return text;
    }
    InlinedText inlined = InlineReferences(text, known);
    const Json of_worker = VariablesOf(*pod_);
    for (const std::string& name : inlined.unknown) {
      const bool is_set = IndexOfVariable(name, of_worker) < of_worker.size();
      Note(
          foreign,
          "$(" + name + ")" + of_what +
              (is_set
                   ? " takes the workers' own value, because this file does not have the launcher's"
                   : " is not set in the workers, so it stays as text"));
    }
    return inlined.has_changed ? std::move(inlined.text) : text;
  }

  void Put(Json variable,
           const std::map<std::string, std::string>& known,
           const std::string& foreign) {
    const std::string name = variable.at("name").get<std::string>();
    if (const Json value = MemberOf(variable, "value"); value.is_string()) {
      variable["value"] =
          ForWorker(value.get<std::string>(), known, " in the value of " + name, foreign);
    }
    Json of_worker = VariablesOf(*pod_);
    const std::size_t index = IndexOfVariable(name, of_worker);
    if (index == of_worker.size()) {
      of_worker.push_back(std::move(variable));
    } else if (of_worker[index] != variable) {
      Note(pod_->ForeignPathOf(PathOfVariable(index)),
           "not kept: all ranks get the launcher's " + name + " instead, as under " +
               command_.launcher);
      of_worker[index] = std::move(variable);
    }
    pod_->container()["env"] = std::move(of_worker);
    pod_->origins.push_back({PathOfVariable(index), foreign});
  }

  const LaunchCommand& command_;
  const ConvertedPod& launcher_;
  const Json variables_;  // of the launcher, which may be the pod that is written to
  const std::map<std::string, std::string> known_;
  ConvertedPod* pod_;
  Conversion* conversion_;
};

}  // namespace

void HandOnAll(const ConvertedPod& launcher, LaunchCommand* command, Conversion* conversion) {
  for (const Json& variable : VariablesOf(launcher)) {
    const Json name = MemberOf(variable, "name");
    const bool is_given = std::ranges::any_of(
        command->variables, [&](const auto& given) { return given.first == name; });
    if (name.is_string() && !is_given) {
      command->variables.emplace_back(name.get<std::string>(), std::nullopt);
    }
  }
  if (!launcher.OfContainer("envFrom").is_null()) {
    conversion->notes.push_back(
        {launcher.container_path + ".envFrom",
         "not kept: the launcher passed these variables to every rank; add this envFrom to the "
         "workers' template"});
  }
}

void SetLaunched(const LaunchCommand& command,
                 const ConvertedPod& launcher,
                 ConvertedPod* pod,
                 Conversion* conversion) {
  HandingOn handing_on(command, launcher, pod, conversion);
  handing_on.SetProgram();
  handing_on.SetVariables();
}

}  // namespace lockstep::control
