#include "tests/sim/nodes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "operator/kube/decode.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Source: kube-controller-manager's defaults, shortened: what matters is the order of things.
constexpr Duration kNotReadyAfter = seconds(40);
constexpr Duration kEvictAfter = seconds(300);
constexpr Duration kOrphanedFor = seconds(40);  // pods of a node that is no more

bool IsOurs(const kube::Pod& pod) {
  return pod.labels.count("lockstep.dev/job") > 0;
}

constexpr int kCpuMilli = 64'000;

bool HasEnded(const Json& pod) {
  const std::string phase = TextAt(pod, "status.phase");
  return phase == "Succeeded" || phase == "Failed";
}

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
  const std::optional<std::string> node = ChooseNode(decoded_.Of(pod), &refusal);
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

std::optional<std::string> Nodes::ChooseNode(const kube::Pod& pod, std::string* refusal) {
  if (IsOurs(pod) && context_->Strikes(30)) {
    unbindable.insert(pod.uid);
  }
  if (unbindable.count(pod.uid) > 0) {
    *refusal = "0/" + std::to_string(nodes_.size()) +
               " nodes are available: 1 node(s) didn't have free ports for the requested pod ports";
    return std::nullopt;
  }
  for (const auto& [key, node] : server_->mutable_store()->Of(kube::kNodes).objects) {
    if (!pod.spec.node_name.empty() && pod.spec.node_name != key.name) {
      continue;  // its affinity names another
    }
    const std::string why = RefusalOf(node, pod);
    if (why.empty()) {
      return key.name;
    }
    *refusal = "0/" + std::to_string(nodes_.size()) + " nodes are available: " + why;
  }
  if (refusal->empty()) {
    *refusal = "0/" + std::to_string(nodes_.size()) + " nodes are available: no such node";
  }
  return std::nullopt;
}

// Why the scheduler would not bind the pod to the node; empty: it would.
std::string Nodes::RefusalOf(const ObjectPtr& object, const kube::Pod& pod) const {
  const kube::Node& node = decoded_nodes_.Of(object);
  if (!node.is_schedulable) {
    return "1 node(s) were unschedulable";
  }
  ResourceVector used;
  for (const auto& [key, other] : server_->mutable_store()->Of(kube::kPods).objects) {
    if (TextAt(*other, "spec.nodeName") == node.name && !HasEnded(*other)) {
      used = Sum(used, decoded_.Of(other).spec.container.requests);
    }
  }
  for (const NamedAmount& wanted : pod.spec.container.requests.All()) {
    if (used.AmountOf(wanted.name) + wanted.amount > node.allocatable.AmountOf(wanted.name)) {
      return "1 Insufficient " + wanted.name;
    }
  }
  return "";
}

void Nodes::RunKubelets() {
  const auto pods = server_->store().Of(kube::kPods).objects;  // a copy: reports are writes
  for (const auto& [key, pod] : pods) {
    const auto node = nodes_.find(TextAt(*pod, "spec.nodeName"));
    const bool is_looked_after =
        node != nodes_.end() && !node->second.is_crashed && !node->second.is_cut_off;
    if (is_looked_after && !context_->Happens(3)) {
      Sync(&node->second, key, pod);
    }
  }
  for (auto& [name, node] : nodes_) {
    if (!node.is_crashed && !node.is_cut_off) {
      DropUnknown(&node);
    }
  }
}

void Nodes::Sync(Node* node, const kube::ObjectKey& key, const ObjectPtr& pod) {
  const auto local = node->pods.find(UidOf(*pod));
  if (IsDeleting(*pod)) {
    SyncDeletion(node, key, *pod);
  } else if (local != node->pods.end()) {
    Advance(local->first, *pod, &local->second);
  } else if (!HasEnded(*pod)) {
    Admit(node, key, pod);
  }
}

std::set<int> Nodes::FreeDevices(const Node& node) const {
  std::set<int> free;
  for (int device = 0; device < node.gpus; ++device) {
    free.insert(device);
  }
  for (const auto& [uid, local] : node.pods) {
    for (const int device : local.devices) {
      free.erase(device);
    }
  }
  return free;
}

// Whether pods of Lockstep alone, as the API server knows them, ask for more GPUs than the node
// has.
bool Nodes::IsOvercommitted(const Node& node, const kube::Pod& pod) const {
  int64_t gpus = pod.spec.container.requests.gpu_count;
  for (const auto& [key, other] : server_->mutable_store()->Of(kube::kPods).objects) {
    const bool is_ours = MatchesLabels(*other, {{"lockstep.dev/job", false, true, {}}});
    if (is_ours && UidOf(*other) != pod.uid && TextAt(*other, "spec.nodeName") == node.name &&
        !HasEnded(*other)) {
      gpus += decoded_.Of(other).spec.container.requests.gpu_count;
    }
  }
  return gpus > node.gpus;
}

void Nodes::Refuse(const Node& node, const kube::ObjectKey& key, const std::string& reason) {
  context_->Tell("kubelet " + node.name + ": refuses " + key.name + ", " + reason);
  server_->Edit(kube::kPods, key, [&](Json* one) {
    (*one)["status"]["phase"] = "Failed";
    (*one)["status"]["reason"] = reason;
    (*one)["status"]["message"] = "Pod was rejected";
  });
}

void Nodes::Admit(Node* node, const kube::ObjectKey& key, const ObjectPtr& pod) {
  const kube::Pod decoded = decoded_.Of(pod);
  const int64_t wanted = decoded.spec.container.requests.gpu_count;
  std::set<int> free = FreeDevices(*node);
  const bool has_room = wanted <= static_cast<int64_t>(free.size());
  if (wanted > 0 && (!node->has_plugin || !has_room)) {
    if (IsOurs(decoded) && IsOvercommitted(*node, decoded)) {
      given_twice_.push_back(key.name + " on " + node->name);
    }
    Refuse(*node, key, "UnexpectedAdmissionError");
    return;
  }
  if (IsOurs(decoded) && context_->Strikes(40)) {
    Refuse(*node, key, "OutOfcpu");
    return;
  }
  if (IsOurs(decoded) && context_->Strikes(30)) {
    broken_images.insert(decoded.uid);
  }
  LocalPod local;
  local.key = key;
  local.ready_at = context_->now + context_->Between(milliseconds(100), milliseconds(3000));
  local.is_ours = IsOurs(decoded);
  local.ends_at = local.ready_at + context_->Between(seconds(5), seconds(60));
  while (static_cast<int64_t>(local.devices.size()) < wanted) {
    local.devices.insert(free.extract(free.begin()));
  }
  node->pods[decoded.uid] = std::move(local);
}

void Nodes::Advance(const std::string& uid, const Json& pod, LocalPod* local) {
  if (local->stage == Stage::kPulling) {
    if (broken_images.count(uid) > 0) {
      server_->Edit(kube::kPods, local->key, [](Json* one) {
        (*one)["status"]["containerStatuses"] = Json::array(
            {{{"name", "trainer"},
              {"state",
               {{"waiting",
                 {{"reason", "ImagePullBackOff"}, {"message", "Back-off pulling image"}}}}}}});
      });
      return;
    }
    if (context_->now < local->ready_at) {
      return;
    }
    local->stage = Stage::kRunning;
    const std::string node = TextAt(pod, "spec.nodeName");
    if (local->is_ours) {
      const Status started = processes_->Start(uid, node, pod.at("spec").at("containers").at(0));
      LOCKSTEP_CHECK(started.ok(), started.error().ToString());
    }
    const std::string address = "10.0.0." + std::to_string(next_address_++);
    server_->Edit(kube::kPods, local->key, [&](Json* one) {
      (*one)["status"]["phase"] = "Running";
      (*one)["status"]["podIP"] = address;
      (*one)["status"]["containerStatuses"] =
          Json::array({{{"name", "trainer"}, {"state", {{"running", Json::object()}}}}});
    });
    context_->Tell("kubelet " + node + ": " + local->key.name + " runs");
    return;
  }
  const Processes::Process* const process = processes_->Find(uid);
  const bool has_ended = local->is_ours ? process == nullptr || process->end.has_value()
                                        : context_->now >= local->ends_at;
  if (local->stage == Stage::kRunning && has_ended) {
    local->stage = Stage::kEnded;
    local->devices.clear();
  }
  if (local->stage == Stage::kEnded) {
    Report(*local, uid, pod);
  }
}

void Nodes::Report(const LocalPod& local, const std::string& uid, const Json& pod) {
  if (HasEnded(pod)) {
    return;
  }
  const Processes::Process* const process = processes_->Find(uid);
  // A kubelet that has lost its memory of a container says so.
  const ProcessEnd lost{137, "ContainerStatusUnknown"};
  const ProcessEnd end = !local.is_ours ? ProcessEnd{0, "Completed"}
                         : process == nullptr || !process->end.has_value() ? lost
                                                                           : *process->end;
  server_->Edit(kube::kPods, local.key, [&](Json* one) {
    (*one)["status"]["phase"] = end.code == 0 ? "Succeeded" : "Failed";
    (*one)["status"]["containerStatuses"] = Json::array(
        {{{"name", "trainer"},
          {"state", {{"terminated", {{"exitCode", end.code}, {"reason", end.reason}}}}}}});
  });
}

void Nodes::SyncDeletion(Node* node, const kube::ObjectKey& key, const Json& pod) {
  const std::string uid = UidOf(pod);
  const auto found = node->pods.find(uid);
  if (found != node->pods.end() && found->second.is_ours &&
      found->second.stage == Stage::kRunning) {
    const int64_t grace = pod.at("metadata").value("deletionGracePeriodSeconds", int64_t{30});
    processes_->Stop(uid, seconds(grace));
    const Processes::Process* const process = processes_->Find(uid);
    if (process != nullptr && !process->end.has_value()) {
      return;  // it still runs
    }
    found->second.stage = Stage::kEnded;
    found->second.devices.clear();
    Report(found->second, uid, pod);
    return;  // the object goes with the next look
  }
  if (found != node->pods.end()) {
    node->pods.erase(found);
  }
  processes_->Forget(uid);
  const kube::Reply reply = server_->Handle(
      kube::Delete(kube::kPods, key.namespace_name, key.name, {uid, seconds(0), false}),
      context_->ServerTime());
  context_->Tell("kubelet " + node->name + ": " + key.name + " is gone (" +
                 std::to_string(reply.status) + ")");
}

// Pods whose objects were removed without asking the kubelet: their processes are killed now.
void Nodes::DropUnknown(Node* node) {
  for (auto local = node->pods.begin(); local != node->pods.end();) {
    const ObjectPtr pod = server_->mutable_store()->Get(kube::kPods, local->second.key);
    if (pod != nullptr && UidOf(*pod) == local->first) {
      ++local;
      continue;
    }
    processes_->Stop(local->first, milliseconds(500));
    const Processes::Process* const process = processes_->Find(local->first);
    if (process != nullptr && !process->end.has_value()) {
      ++local;
      continue;
    }
    processes_->Forget(local->first);
    local = node->pods.erase(local);
  }
}

void Nodes::KillAll(Node* node) {
  for (auto& [uid, local] : node->pods) {
    processes_->End(uid, {137, "Error"});
    processes_->Forget(uid);
  }
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
