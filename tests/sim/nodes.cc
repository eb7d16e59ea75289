#include "tests/sim/nodes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Source: kube-controller-manager's defaults, shortened: what matters is the order of things.
constexpr Duration kNotReadyAfter = seconds(40);
constexpr Duration kEvictAfter = seconds(300);
constexpr Duration kOrphanedFor = seconds(40);  // pods of a node that is no more

constexpr int kCpuMilli = 64'000;

void SetCondition(Json* object, const std::string& type, Json condition) {
  condition["type"] = type;
  for (Json& one : (*object)["status"]["conditions"]) {
    if (one["type"] == type) {
      one = std::move(condition);
      return;
    }
  }
  (*object)["status"]["conditions"].push_back(std::move(condition));
}

}  // namespace

void Nodes::Add(const std::string& name, int gpus) {
  Node node;
  node.name = name;
  node.gpus = gpus;
  nodes_[name] = std::move(node);
  Json object = {
      {"metadata",
       {{"name", name}, {"uid", "uid-" + name}, {"labels", {{"kubernetes.io/hostname", name}}}}},
      {"spec", Json::object()},
      {"status",
       {{"allocatable",
         {{"cpu", std::to_string(kCpuMilli) + "m"},
          {"memory", "256Gi"},
          {"pods", "110"},
          {"nvidia.com/gpu", std::to_string(gpus)}}},
        {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
  if (context_->has_racks) {
    object["metadata"]["labels"][kRackLabel] = "r0";
  }
  server_->mutable_store()->Put(
      &server_->mutable_store()->Of(kube::kNodes), {"", name}, std::move(object));
}

std::vector<std::string> Nodes::names() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) {
    if (!node.is_removed) {
      names.push_back(name);
    }
  }
  return names;
}

void Nodes::Run() {
  RunScheduler();
  RunKubelets();
  RunNodeController();
}

void Nodes::RunScheduler() {
  const auto pods = server_->mutable_store()->Of(kube::kPods).objects;  // a copy: binding writes
  for (const auto& [key, pod] : pods) {
    const bool is_waiting = TextAt(*pod, "spec.nodeName").empty() && !IsDeleting(*pod) &&
                            TextAt(*pod, "status.phase") == "Pending";
    if (is_waiting && context_->Happens(2)) {
      Schedule(key, pod);
    }
  }
}

void Nodes::Schedule(const kube::ObjectKey& key, const ObjectPtr& pod) {
  std::string refusal;
  const std::optional<std::string> node = ChooseNode(pod, &refusal);
  server_->Edit(kube::kPods, key, [&](Json* one) {
    if (node.has_value()) {
      (*one)["spec"]["nodeName"] = *node;
      SetCondition(one, "PodScheduled", {{"status", "True"}});
    } else {
      SetCondition(one,
                   "PodScheduled",
                   {{"status", "False"}, {"reason", "Unschedulable"}, {"message", refusal}});
    }
  });
  context_->Tell("scheduler: " + key.name + " -> " + node.value_or("nowhere: " + refusal));
}

std::optional<std::string> Nodes::ChooseNode(const ObjectPtr& pod, std::string* refusal) {
  if (!JobUidOf(*pod).empty() && context_->Strikes(30)) {
    unbindable.insert(UidOf(*pod));
  }
  const std::string available = "0/" + std::to_string(nodes_.size()) + " nodes are available: ";
  if (unbindable.count(UidOf(*pod)) > 0) {
    *refusal = available + "1 node(s) didn't have free ports for the requested pod ports";
    return std::nullopt;
  }
  const std::string wanted = NodeWantedBy(*pod);
  for (const auto& [key, node] : server_->mutable_store()->Of(kube::kNodes).objects) {
    if (!wanted.empty() && wanted != key.name) {
      continue;  // its affinity names another
    }
    const std::string why = RefusalOf(node, pod);
    if (why.empty()) {
      return key.name;
    }
    *refusal = available + why;
  }
  if (refusal->empty()) {
    *refusal = available + "no such node";
  }
  return std::nullopt;
}

// Why the scheduler would not bind the pod to the node; empty: it would.
std::string Nodes::RefusalOf(const ObjectPtr& node, const ObjectPtr& pod) const {
  if (node->at("spec").value("unschedulable", false)) {
    return "1 node(s) were unschedulable";
  }
  if (node->at("spec").contains("taints")) {
    return "1 node(s) had untolerated taints";
  }
  const std::string name = TextAt(*node, "metadata.name");
  const std::string shortage =
      Shortage(allocatable_.Of(node), UsedOn(name, *pod, nullptr), requests_.Of(pod));
  return shortage.empty() ? "" : "1 Insufficient " + shortage;
}

// What the pods on the node have asked for, as the API server knows them, `but` left out; those
// that `counts` lets through, where there is one.
Amounts Nodes::UsedOn(const std::string& node,
                      const Json& but,
                      const std::function<bool(const Json&)>& counts) const {
  Amounts used;
  for (const auto& [key, pod] : server_->mutable_store()->Of(kube::kPods).objects) {
    if (TextAt(*pod, "spec.nodeName") == node && !HasPodEnded(*pod) && UidOf(*pod) != UidOf(but) &&
        (counts == nullptr || counts(*pod))) {
      AddTo(&used, requests_.Of(pod));
    }
  }
  return used;
}

void Nodes::Crash(const std::string& name) {
  Node& node = nodes_.at(name);
  if (node.is_crashed || node.is_cut_off) {
    return;
  }
  context_->Tell("node " + name + " crashes");
  node.is_crashed = true;
  node.gone_since = context_->now;
  KillAll(&node);
}

void Nodes::CutOff(const std::string& name) {
  Node& node = nodes_.at(name);
  if (node.is_crashed || node.is_cut_off) {
    return;
  }
  context_->Tell("node " + name + " is cut off");
  node.is_cut_off = true;
  node.gone_since = context_->now;
  processes_->cut_off.insert(name);
}

void Nodes::Remove(const std::string& name) {
  context_->Tell("node " + name + " is removed");
  Node& node = nodes_.at(name);
  node.is_removed = true;
  node.is_crashed = true;
  node.gone_since = context_->now;
  KillAll(&node);
  server_->mutable_store()->Remove(&server_->mutable_store()->Of(kube::kNodes), {"", name});
}

void Nodes::Return(const std::string& name) {
  Node& node = nodes_.at(name);
  if (node.is_removed || (!node.is_crashed && !node.is_cut_off)) {
    return;
  }
  context_->Tell("node " + name + " is back");
  node.is_crashed = false;
  node.is_cut_off = false;
  processes_->cut_off.erase(name);
  SetReady(name, true);
}

void Nodes::ReturnAll() {
  for (auto& [name, node] : nodes_) {
    Return(name);
    node.has_plugin = true;
  }
}

void Nodes::SetReady(const std::string& name, bool is_ready) {
  server_->Edit(kube::kNodes, {"", name}, [is_ready](Json* node) {
    SetCondition(node, "Ready", {{"status", is_ready ? "True" : "Unknown"}});
  });
}

void Nodes::RunNodeController() {
  for (const auto& [name, node] : nodes_) {
    if (!node.is_crashed && !node.is_cut_off) {
      continue;
    }
    const Duration gone = context_->now - node.gone_since;
    if (gone >= kNotReadyAfter) {
      SetReady(name, false);
    }
    if (gone >= (node.is_removed ? kOrphanedFor : kEvictAfter)) {
      EvictFrom(node);
    }
  }
}

// The taint manager deletes the pods of a node that is silent; nobody is there to finish it. Those
// of a node that is no more are collected.
void Nodes::EvictFrom(const Node& node) {
  const auto grace = node.is_removed ? std::optional(seconds(0)) : std::nullopt;
  const auto pods = server_->mutable_store()->Of(kube::kPods).objects;
  for (const auto& [key, pod] : pods) {
    const bool is_due = node.is_removed || !IsDeleting(*pod);
    if (TextAt(*pod, "spec.nodeName") == node.name && is_due) {
      server_->Handle(
          kube::Delete(kube::kPods, key.namespace_name, key.name, {UidOf(*pod), grace, false}),
          context_->ServerTime());
    }
  }
}

std::map<std::string, Nodes::DeviceUse> Nodes::DevicesInUse() const {
  std::map<std::string, DeviceUse> uses;
  for (const auto& [name, node] : nodes_) {
    for (const auto& [uid, local] : node.pods) {
      if (!local.devices.empty()) {
        uses[uid] = {name, local.devices};
      }
    }
  }
  return uses;
}

}  // namespace lockstep::control::sim
