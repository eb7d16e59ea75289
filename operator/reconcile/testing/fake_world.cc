#include "operator/reconcile/testing/fake_world.h"

#include <algorithm>
#include <string_view>

#include "common/base/check.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/capacity/capacity_answer.h"
#include "operator/reconcile/failure/restart_cause.h"
#include "operator/reconcile/failure/start_problem.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

constexpr int64_t kGiB = 1024LL * 1024 * 1024;

TrainingJob MakeJob(int workers) {
  TrainingJob job;
  job.metadata.name = "mnist";
  job.metadata.namespace_name = "default";
  job.metadata.uid = "uid-1";
  job.metadata.generation = 1;
  AddRole(Role::kWorker, workers, &job);
  return job;
}

template <typename Names>
std::string Join(const Names& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

}  // namespace

void AddRole(Role role, int replicas, TrainingJob* job) {
  RoleSpec spec;
  spec.name = role;
  spec.replicas = replicas;
  spec.pod.image = "example/train:1";
  if (!job->spec.training.has_value()) {
    spec.pod.command = {"python3", "train.py"};
  }
  job->spec.roles.push_back(spec);
}

TrainingJob MakeTrainingJob(int workers) {
  TrainingJob job = MakeJob(workers);
  TrainingSpec training;
  training.model.input_shape = {4};
  training.model.layers = {DenseLayer{}};
  job.spec.training = training;
  job.spec.roles[0].pod.command.clear();
  return job;
}

TrainingJob MakeCommandJob(int workers) {
  return MakeJob(workers);
}

TestWorld::TestWorld(TrainingJob new_job) : job(std::move(new_job)) {
  AddNode("node-a");
}

void TestWorld::AddNode(const std::string& name) {
  kube::Node node;
  node.name = name;
  node.allocatable = {64'000, 256 * kGiB, 8};
  nodes().push_back(node);
}

Decision TestWorld::Step() {
  Decision decision = Decide(job, observed, now);
  job.status = decision.status;
  for (const MetricDelta& delta : decision.metrics) {
    const std::vector<std::string_view> causes = RestartCauses();
    LOCKSTEP_CHECK(delta.metric != Metric::kRestarts ||
                       std::count(causes.begin(), causes.end(), delta.label) == 1,
                   "no cause of restarts: " + delta.label);
    LOCKSTEP_CHECK(
        delta.metric != Metric::kRollbacks ||
            std::count(kRollbackReasons.begin(), kRollbackReasons.end(), delta.label) == 1,
        "no reason of rollbacks: " + delta.label);
    LOCKSTEP_CHECK(delta.metric != Metric::kCapacityAnswers ||
                       ValueOf(kCapacityAnswerNames, delta.label).has_value(),
                   "no answer to an ask: " + delta.label);
  }
  for (const Effect& effect : decision.effects) {
    Apply(effect);
  }
  return decision;
}

void TestWorld::Apply(const Effect& effect) {
  if (const auto* create = std::get_if<CreatePod>(&effect)) {
    if (Find(create->pod.name) == nullptr) {
      observed.pods.push_back(create->pod);
      observed.pods.back().uid = "pod-uid-" + std::to_string(next_uid_++);
      observed.pods.back().status.is_unbound = create->pod.spec.node_name.empty();
    }
  } else if (const auto* removal = std::get_if<DeletePod>(&effect)) {
    kube::Pod* const pod = Find(removal->name);
    if (pod == nullptr || pod->uid != removal->uid) {
      return;
    }
    if (pod->status.phase == kube::PodPhase::kRunning) {
      pod->is_deleting = true;
      pod->deletion_grace = removal->grace;
    } else {
      Vanish(removal->name);
    }
  }
}

void TestWorld::RunAll() {
  for (kube::Pod& pod : observed.pods) {
    if (pod.status.phase == kube::PodPhase::kPending) {
      pod.status.phase = kube::PodPhase::kRunning;
    }
  }
}

void TestWorld::Launch() {
  Step();
  RunAll();
  Step();
}

void TestWorld::Exit(const std::string& name, int code, const std::string& reason) {
  kube::Pod* const pod = Find(name);
  pod->status.phase = code == 0 ? kube::PodPhase::kSucceeded : kube::PodPhase::kFailed;
  kube::ContainerTermination termination;
  termination.exit_code = code;
  termination.finished_at = now;
  termination.signal = code > 128 ? code - 128 : 0;
  termination.reason = reason;
  if (reason.empty()) {
    termination.reason = code == 0 ? "Completed" : "Error";
  }
  pod->status.termination = termination;
  observed.reports.erase(name);
}

void TestWorld::Vanish(const std::string& name) {
  observed.pods.erase(std::remove_if(observed.pods.begin(),
                                     observed.pods.end(),
                                     [&](const kube::Pod& pod) { return pod.name == name; }),
                      observed.pods.end());
  observed.reports.erase(name);
}

void TestWorld::FinishDeletions() {
  std::vector<std::string> names;
  for (const kube::Pod& pod : observed.pods) {
    if (pod.is_deleting) {
      names.push_back(pod.name);
    }
  }
  for (const std::string& name : names) {
    Vanish(name);
  }
}

void TestWorld::Advance(Duration step) {
  now += std::chrono::duration_cast<std::chrono::milliseconds>(step);
  for (auto& [pod, report] : observed.reports) {
    report.age += step;
  }
}

void TestWorld::GiveUp(const std::string& pod,
                       const std::string& words,
                       const std::vector<int>& left_ranks) {
  Exit(pod, kExitRetryable);
  TerminationMessage message;
  message.reason = words;
  message.left_ranks = left_ranks;
  Find(pod)->status.termination->message = EncodeTerminationMessage(message);
}

void TestWorld::ReportMeeting() {
  ReportAll();
  for (auto& [pod, report] : observed.reports) {
    report.document.backend = "tcp";
  }
}

void TestWorld::ReportAll() {
  for (const kube::Pod& pod : observed.pods) {
    const auto identity = ParsePodLabels(pod.labels);
    if (pod.status.phase != kube::PodPhase::kRunning || !identity.has_value() ||
        !identity->rank.has_value()) {
      continue;
    }
    RuntimeReport report;
    report.document.attempt = identity->number.attempt;
    report.document.incarnation = identity->number.incarnation;
    report.document.rank = identity->rank;
    report.document.epoch = job.status.epoch;
    for (const kube::Pod& other : observed.pods) {
      const auto peer = ParsePodLabels(other.labels);
      if (&other != &pod && peer.has_value() && peer->rank.has_value()) {
        report.document.peers.push_back(
            {*peer->rank, peer->number.incarnation, PeerState::kConnected, "", 0});
      }
    }
    observed.reports[pod.name] = report;
  }
}

kube::Pod* TestWorld::Find(const std::string& name) {
  const auto found = std::find_if(observed.pods.begin(),
                                  observed.pods.end(),
                                  [&](const kube::Pod& pod) { return pod.name == name; });
  return found == observed.pods.end() ? nullptr : &*found;
}

std::string TestWorld::Pods() const {
  std::vector<std::string> names;
  for (const kube::Pod& pod : observed.pods) {
    names.push_back(pod.name + (pod.is_deleting ? "-" : ""));
  }
  std::sort(names.begin(), names.end());
  return Join(names);
}

std::string DescribeEffects(const Decision& decision) {
  std::string text;
  for (const Effect& effect : decision.effects) {
    text += DescribeEffect(effect) + "\n";
  }
  return text;
}

std::string EventReasons(const Decision& decision) {
  std::vector<std::string> reasons;
  for (const Event& event : decision.events) {
    reasons.push_back(event.reason);
  }
  return Join(reasons);
}

std::string DescribeRestarts(const TrainingJobStatus& status) {
  std::vector<std::string> restarts;
  for (const RestartCount& restart : status.restarts) {
    restarts.push_back(restart.cause + "=" + std::to_string(restart.count));
  }
  return Join(restarts);
}

std::string TrueConditions(const TrainingJobStatus& status) {
  std::vector<std::string> types;
  for (const Condition& condition : status.conditions) {
    if (condition.is_true) {
      types.emplace_back(ConditionTypeName(condition.type));
    }
  }
  return Join(types);
}

std::string ReasonOf(const TrainingJobStatus& status, ConditionType type) {
  const Condition* const condition = FindCondition(status, type);
  return condition == nullptr ? "" : condition->reason;
}

std::string MessageOf(const TrainingJobStatus& status, ConditionType type) {
  const Condition* const condition = FindCondition(status, type);
  return condition == nullptr ? "" : condition->message;
}

}  // namespace lockstep::control
