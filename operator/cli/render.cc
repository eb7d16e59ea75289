#include "operator/cli/render.h"

#include <utility>

#include "operator/api/job/job_topology.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {

Result<std::vector<RenderedPod>> RenderPods(const TrainingJob& job, const PodSettings& settings) {
  std::vector<RenderedPod> rendered;
  for (const TaskId& task : AllTasks(TopologyOf(job, settings.addressing))) {
    PodRequest request;
    request.task = task;
    LOCKSTEP_ASSIGN_OR_RETURN(kube::Pod pod, BuildPod(job, request, settings));
    RenderedPod one{task, std::move(pod), {}};
    for (const EnvironmentSource& source : job.FindRole(task.role)->pod.env_sources) {
      if (!IsKnownWithoutCluster(source)) {
        one.sources.push_back(source);
      }
    }
    rendered.push_back(std::move(one));
  }
  return rendered;
}

Json EncodePods(const std::vector<RenderedPod>& pods) {
  Json list = Json::array();
  for (const RenderedPod& rendered : pods) {
    const kube::ContainerSpec& container = rendered.pod.spec.container;
    Json json = Json::object();
    json["name"] = rendered.pod.name;
    json["role"] = std::string(RoleName(rendered.task.role));
    json["index"] = rendered.task.index;
    json["image"] = container.image;
    json["command"] = Json::array();
    for (const auto* words : {&container.command, &container.args}) {
      for (const std::string& word : *words) {
        json["command"].push_back(word);
      }
    }
    json["env"] = Json::object();
    for (const auto& [name, value] : container.env) {
      json["env"][name] = value;
    }
    list.push_back(std::move(json));
  }
  Json document = Json::object();
  document["pods"] = std::move(list);
  return document;
}

std::string FormatPods(const std::vector<RenderedPod>& pods) {
  std::string text;
  for (const RenderedPod& rendered : pods) {
    const kube::ContainerSpec& container = rendered.pod.spec.container;
    text += (text.empty() ? "pod " : "\npod ") + rendered.pod.name + "\n  command";
    for (const auto* words : {&container.command, &container.args}) {
      for (const std::string& word : *words) {
        text += " " + word;
      }
    }
    text += "\n";
    for (const EnvironmentSource& source : rendered.sources) {
      text += "  " + (source.variable.empty() ? "..." : source.variable) + " from a " +
              source.kind + (source.is_optional ? ", if that exists\n" : "\n");
    }
    for (const auto& [name, value] : container.env) {
      text += "  " + name + "=" + value + "\n";
    }
  }
  return text;
}

}  // namespace lockstep::control
