#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "tests/sim/nodes.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// The kubelets of the simulated nodes.
namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int64_t GpusOf(const Amounts& amounts) {
  return AmountOf(amounts, "nvidia.com/gpu") / 1000;
}

}  // namespace

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
  } else if (!HasPodEnded(*pod)) {
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

// Of what pods of Lockstep alone, as the API server knows them, ask for more than the node has;
// empty: of nothing. Those of a job that is gone may have been on their way when it went.
std::string Nodes::Overcommitted(const Node& node, const ObjectPtr& pod) const {
  std::set<std::string> jobs;
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (!IsDeleting(*job)) {
      jobs.insert(UidOf(*job));
    }
  }
  const auto is_of_job = [&jobs](const Json& one) { return jobs.count(JobUidOf(one)) > 0; };
  const ObjectPtr object = server_->store().Get(kube::kNodes, {"", node.name});
  if (object == nullptr || !is_of_job(*pod)) {
    return "";
  }
  const Amounts used = UsedOn(node.name, *pod, is_of_job);
  const std::string resource = Shortage(allocatable_.Of(object), used, requests_.Of(pod));
  // What a LimitRange makes of pods nobody knows before the first of them is there.
  return resource == "cpu" && server_->admission.raised_count > 0 ? "" : resource;
}

void Nodes::Refuse(const Node& node, const kube::ObjectKey& key, const std::string& reason) {
  context_->Tell("kubelet " + node.name + ": refuses " + key.name + ", " + reason);
  server_->Edit(kube::kPods, key, [&](Json* one) {
    (*one)["status"]["phase"] = "Failed";
    (*one)["status"]["reason"] = reason;
    (*one)["status"]["message"] = "Pod was rejected";
  });
}

// Why the kubelet does not let the pod in; empty: it does.
std::string Nodes::RefusalBy(const Node& node, const ObjectPtr& pod) {
  const bool is_ours = !JobUidOf(*pod).empty();
  const Amounts wanted = requests_.Of(pod);
  const auto free = static_cast<int64_t>(FreeDevices(node).size());
  const bool lacks_devices = GpusOf(wanted) > 0 && (!node.has_plugin || GpusOf(wanted) > free);
  const ObjectPtr object = server_->store().Get(kube::kNodes, {"", node.name});
  const std::string shortage =
      object == nullptr
          ? ""
          : Shortage(allocatable_.Of(object), UsedOn(node.name, *pod, nullptr), wanted);
  if (is_ours && (lacks_devices || !shortage.empty()) && !Overcommitted(node, pod).empty()) {
    given_twice_.push_back(Overcommitted(node, pod) + " for " + TextAt(*pod, "metadata.name") +
                           " on " + node.name);
  }
  if (lacks_devices) {
    return "UnexpectedAdmissionError";
  }
  if (!shortage.empty()) {
    return "OutOf" + shortage;
  }
  if (node.refuses_all) {
    context_->Count("a node that always refuses");
    return "NodeAffinity";
  }
  return is_ours && context_->Strikes(40) ? "OutOfcpu" : "";
}

void Nodes::Admit(Node* node, const kube::ObjectKey& key, const ObjectPtr& pod) {
  const std::string refusal = RefusalBy(*node, pod);
  if (!refusal.empty()) {
    Refuse(*node, key, refusal);
    return;
  }
  LocalPod local;
  local.key = key;
  local.ready_at = context_->now + context_->Between(milliseconds(100), milliseconds(3000));
  local.is_ours = !JobUidOf(*pod).empty();
  if (local.is_ours && context_->Strikes(30)) {
    broken_images.insert(UidOf(*pod));
  }
  local.ends_at = local.ready_at + context_->Between(seconds(5), seconds(60));
  std::set<int> free = FreeDevices(*node);
  while (static_cast<int64_t>(local.devices.size()) < GpusOf(requests_.Of(pod))) {
    local.devices.insert(free.extract(free.begin()));
  }
  node->pods[UidOf(*pod)] = std::move(local);
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
  if (HasPodEnded(pod)) {
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
          {"state",
           {{"terminated",
             {{"exitCode", end.code}, {"reason", end.reason}, {"message", end.message}}}}}}});
  });
}

void Nodes::SyncDeletion(Node* node, const kube::ObjectKey& key, const Json& pod) {
  const std::string uid = UidOf(pod);
  const auto found = node->pods.find(uid);
  if (node->never_ends && found != node->pods.end()) {
    SyncStuck(*node, found->second, pod);
    return;
  }
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
  if (!FinalizersOf(pod).empty()) {
    // Somebody holds the object back: the kubelet says at least that nothing of it runs.
    server_->Edit(kube::kPods, key, [](Json* one) {
      if (!HasPodEnded(*one)) {
        (*one)["status"]["phase"] = "Failed";
      }
    });
  }
  const kube::Reply reply = server_->Handle(
      kube::Delete(kube::kPods, key.namespace_name, key.name, {uid, seconds(0), false}),
      context_->ServerTime());
  if (FinalizersOf(pod).empty()) {
    context_->Tell("kubelet " + node->name + ": " + key.name + " is gone (" +
                   std::to_string(reply.status) + ")");
  }
}

// The kubelet hangs: some processes are never told to go, others have gone and nobody tells of it.
void Nodes::SyncStuck(const Node& node, const LocalPod& local, const Json& pod) {
  const std::string uid = UidOf(pod);
  context_->Count("a pod that never ends on its node");
  if (node.ends_processes && local.is_ours && local.stage == Stage::kRunning) {
    processes_->Stop(uid, seconds(pod.at("metadata").value("deletionGracePeriodSeconds", 30)));
  }
}

// Pods whose objects were removed without asking the kubelet: their processes are killed now.
void Nodes::DropUnknown(Node* node) {
  if (node->never_ends) {
    return;
  }
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

}  // namespace lockstep::control::sim
