#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"
#include "tests/sim/simulation.h"

// What administrators do, and what breaks in ways that they must mend.
namespace lockstep::control::sim {
namespace {

using std::chrono::seconds;

constexpr const char* kFinalizer = "example.com/hold";

// Two nodes hold the largest job.
constexpr std::size_t kNodesNeeded = 2;

// An administrator reads that a pod is stuck, and is at the node after so long.
constexpr seconds kAdministratorTakes{60};

// Choice: enough for pauses of half a minute.
constexpr int kBreaksMax = 7;

}  // namespace

// As the eviction API does it.
void Simulation::Evict(const ObjectPtr& pod, int act) {
  const kube::ObjectKey key{TextAt(*pod, "metadata.namespace"), TextAt(*pod, "metadata.name")};
  if (IsDeleting(*pod) || HasPodEnded(*pod)) {
    return;
  }
  checks_.casualties()->Note(UidOf(*pod), act);
  server_.Edit(kube::kPods, key, [](Json* one) {
    (*one)["status"]["conditions"].push_back(
        {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "EvictionByEvictionAPI"}});
  });
  server_.Handle(kube::Delete(kube::kPods, key.namespace_name, key.name, {}),
                 context_.ServerTime());
}

void Simulation::EvictAll(const std::string& node) {
  context_.Tell("administrator: drains " + node);
  server_.Edit(kube::kNodes, {"", node}, [](Json* one) { (*one)["spec"]["unschedulable"] = true; });
  const int act = checks_.casualties()->Begin(/*is_free=*/true);
  const auto pods = server_.store().Of(kube::kPods).objects;  // a copy: evicting writes
  for (const auto& [key, pod] : pods) {
    if (TextAt(*pod, "spec.nodeName") == node) {
      Evict(pod, act);
    }
  }
}

// The node with most ranks of one job.
void Simulation::DrainNode() {
  const ObjectPtr job = RandomJob();
  std::map<std::string, int> ranks;
  for (const auto& [key, pod] : server_.store().Of(kube::kPods).objects) {
    const std::string node = TextAt(*pod, "spec.nodeName");
    if (job != nullptr && JobUidOf(*pod) == UidOf(*job) && !HasPodEnded(*pod) && !node.empty()) {
      ++ranks[node];
    }
  }
  const auto most = std::max_element(
      ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != ranks.end() && server_.store().Get(kube::kNodes, {"", most->first}) != nullptr) {
    if (most->second > 1) {
      context_.Count("a drain of a node with most ranks");
    }
    EvictAll(most->first);
  }
}

void Simulation::DrainFirstRank() {
  const auto pods = server_.store().Of(kube::kPods).objects;  // a copy: evicting writes
  for (const auto& [key, pod] : pods) {
    const Processes::Process* const process = processes_.Find(UidOf(*pod));
    if (process != nullptr && !process->end && !process->is_training &&
        process->environment.rank == 0) {
      Evict(pod, checks_.casualties()->Begin(/*is_free=*/true));
      return;
    }
  }
}

ObjectPtr Simulation::JobThatClaims() {
  for (const auto& [key, job] : server_.store().Of(kube::kTrainingJobs).objects) {
    if (!HasEnded(checks_.JobOf(job).status) && checks_.JobOf(job).status.claim.has_value()) {
      return job;
    }
  }
  return nullptr;
}

// The pods of a running gang stay as they are; one is lost.
void Simulation::EditManifest() {
  ObjectPtr job = RandomJob();
  if (job == nullptr) {
    return;
  }
  // Others go for it for some seconds only: chance alone would hardly ever meet it.
  if (const ObjectPtr claimant = JobThatClaims()) {
    job = claimant;
  }
  if (context_.has_shares && context_.shares_prng.Below(2) == 0) {
    MoveToOtherShare(job);
    return;
  }
  const std::string edition = std::to_string(next_edition_++);
  context_.Tell("user: edits " + TextAt(*job, "metadata.name") + ", edition " + edition);
  server_.Edit(kube::kTrainingJobs, {kNamespace, TextAt(*job, "metadata.name")}, [&](Json* one) {
    Json& role = (*one)["spec"]["roles"][0];
    role["template"]["spec"]["containers"][0]["env"][0]["value"] = edition;
    (*one)["metadata"]["generation"] = (*one)["metadata"]["generation"].get<int64_t>() + 1;
  });
  for (const auto& [key, pod] : server_.store().Of(kube::kPods).objects) {
    if (JobUidOf(*pod) == UidOf(*job) && processes_.Find(UidOf(*pod)) != nullptr) {
      context_.Count("an edited manifest, then a lost pod");
      processes_.Fail(UidOf(*pod), {137, "Error"});
      return;
    }
  }
}

void Simulation::SetWebhook() {
  Admission& admission = server_.admission;
  int* const kinds[] = {&admission.denials, &admission.bad_requests, &admission.slow_answers};
  *kinds[context_.prng.Below(std::size(kinds))] = 1 + static_cast<int>(context_.prng.Below(3));
}

void Simulation::HoldPod() {
  const ObjectPtr pod = RandomPod(true);
  if (pod == nullptr) {
    return;
  }
  context_.Tell("user: puts a finalizer on " + TextAt(*pod, "metadata.name"));
  server_.Edit(kube::kPods, {kNamespace, TextAt(*pod, "metadata.name")}, [](Json* one) {
    (*one)["metadata"]["finalizers"] = Json::array({kFinalizer});
  });
}

void Simulation::LetPodsGo() {
  const auto pods = server_.store().Of(kube::kPods).objects;  // a copy: patching writes
  for (const auto& [key, pod] : pods) {
    if (FinalizersOf(*pod).empty()) {
      continue;
    }
    if (IsDeleting(*pod)) {
      context_.Count("a finalizer on a worker");
    }
    const Json patch = {{"metadata", {{"finalizers", Json()}}}};
    server_.Handle(kube::MergePatch(kube::kPods, key.namespace_name, key.name, DumpJson(patch)),
                   context_.ServerTime());
  }
}

void Simulation::SetNodeTemper() {
  const std::string name = RandomNode();
  if (context_.Happens(2)) {
    nodes_.SetRefusing(name, context_.Happens(2));
  } else {
    nodes_.SetNeverEnds(name, context_.Happens(2), context_.Happens(2));
  }
}

void Simulation::SetLimitRange() {
  // Who would fit beside larger pods is not known where turns between queues are checked.
  if (context_.Happens(3) || context_.has_fair_queues) {
    server_.admission.cpu_default.clear();
  } else {
    server_.admission.cpu_default[kNamespace] = "20";
  }
}

// Peace does not mend everything: one node stays as it is, and the others have room for all.
void Simulation::LeaveSomethingBroken() {
  for (const std::string& name : nodes_.names()) {
    nodes_.SetRefusing(name, false);
    nodes_.SetNeverEnds(name, false, false);
  }
  BreakProgram();
  if (nodes_.names().size() <= kNodesNeeded) {
    return;
  }
  const std::string name = RandomNode();
  const uint64_t drawn = context_.prng.Below(4);
  // A gang that needs nearly all nodes stands on one that looks fine again and again.
  switch (has_large_jobs_ && drawn != 1 ? 3 : drawn) {
    case 0:
      context_.Count("in peace: a node that always refuses");
      nodes_.SetRefusing(name, true);
      return;
    case 1:
      context_.Count("in peace: a cordoned node");
      server_.Edit(
          kube::kNodes, {"", name}, [](Json* one) { (*one)["spec"]["unschedulable"] = true; });
      return;
    case 2:
      context_.Count("in peace: a node that ends no pod");
      nodes_.SetNeverEnds(name, true, context_.Happens(2));
      EvictAll(name);
      return;
    default:
      return;
  }
}

// A program that breaks soon after its start again and again, and a younger job beside it.
void Simulation::BreakProgram() {
  const ObjectPtr job = RandomJob();
  if (job == nullptr || !context_.Happens(3)) {
    return;
  }
  breaks_left_[UidOf(*job)] = kBreaksMax;
  CreateJob("job" + std::to_string(next_name_++));
}

void Simulation::RunProgramBreaks() {
  for (const auto& [uid, process] : processes_.all()) {
    const auto left = breaks_left_.find(process.environment.job_uid);
    if (left != breaks_left_.end() && left->second > 0 && !process.end && !process.held &&
        process.step > 3) {
      --left->second;
      context_.Count("in peace: a program that breaks again");
      processes_.Fail(uid, {134, "Error"});
      return;
    }
  }
}

// The node that ends no pod, as somebody is told: the job's status names it, or the job is to go
// and its pods on that node do not. Empty: none.
std::string Simulation::NodeToStartAnew(const ObjectPtr& job) {
  if (IsDeleting(*job)) {
    for (const auto& [key, pod] : server_.store().Of(kube::kPods).objects) {
      if (JobUidOf(*pod) == UidOf(*job) && nodes_.NeverEnds(TextAt(*pod, "spec.nodeName"))) {
        return TextAt(*pod, "spec.nodeName");
      }
    }
    return "";
  }
  const Condition* const scheduled =
      FindCondition(checks_.JobOf(job).status, ConditionType::kScheduled);
  if (scheduled == nullptr || scheduled->is_true || scheduled->reason != kReasonPodStuck) {
    return "";
  }
  for (const std::string& name : nodes_.names()) {
    if (nodes_.NeverEnds(name) && scheduled->message.find("node " + name) != std::string::npos) {
      return name;
    }
  }
  return "";
}

// Starts anew the nodes that somebody is told of, after a while.
void Simulation::RunAdministrator() {
  const auto& jobs = server_.store().Of(kube::kTrainingJobs).objects;
  std::set<std::string> uids;
  for (const auto& [key, job] : jobs) {
    uids.insert(UidOf(*job));
  }
  const auto& pods = server_.store().Of(kube::kPods).objects;
  const bool is_orphan_held = std::any_of(pods.begin(), pods.end(), [&uids](const auto& pod) {
    return !FinalizersOf(*pod.second).empty() && uids.count(JobUidOf(*pod.second)) == 0;
  });
  if (is_orphan_held || !server_.terminating.empty() ||
      std::any_of(
          jobs.begin(), jobs.end(), [](const auto& job) { return IsDeleting(*job.second); })) {
    LetPodsGo();  // what is to go would wait for those who hold its pods back
  }
  for (const auto& [key, object] : jobs) {
    const std::string node = NodeToStartAnew(object);
    if (node.empty()) {
      stuck_since_.erase(UidOf(*object));
      continue;
    }
    const auto [since, is_new] = stuck_since_.try_emplace(UidOf(*object), context_.now);
    if (context_.now - since->second >= kAdministratorTakes) {
      context_.Count("in peace: a stuck pod's node is started anew");
      nodes_.SetNeverEnds(node, false, false);
      NoteLoss(node);
      nodes_.Crash(node);
      nodes_.Return(node);
      return;
    }
  }
}

}  // namespace lockstep::control::sim
