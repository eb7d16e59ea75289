#include "operator/controller/testing/sim_cluster.h"

#include <algorithm>

#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/gang/gang_view.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {

using std::chrono::milliseconds;

SimCluster::SimCluster(uint64_t seed, TrainingJob job, Addressing addressing)
    : prng_(seed), job_(std::move(job)) {
  kube::Node node;
  node.name = "node-a";
  node.allocatable = {64'000, 1LL << 38, 8};
  nodes_ = {node};
  settings_.addressing = std::move(addressing);
}

void SimCluster::Ask(const JobId& /*key*/) {
  if (Dies()) {
    sight_ = Dead();
    return;
  }
  if (!Happens(faults.per_mille_lag)) {
    Refresh();
  }
  sight_ = JobSight{job_, view_};
}

Status SimCluster::WriteStatus(const TrainingJob& job) {
  if (Dies()) {
    return Dead();
  }
  const bool fails = Happens(faults.per_mille_write);
  if (fails && prng_.Below(2) == 0) {
    return Error(ErrorCode::kStale, "conflict");
  }
  CheckWrite(job_.status, job.status);
  job_.status = job.status;
  CheckWorld();
  if (fails) {
    return Error(ErrorCode::kUnavailable, "written, and the answer was lost");
  }
  return OkStatus();
}

std::vector<Status> SimCluster::ApplyEffects(const std::vector<Effect>& effects) {
  std::vector<Status> answers;
  for (const Effect& effect : effects) {
    if (Dies()) {
      answers.emplace_back(Dead());
      continue;
    }
    const bool fails = Happens(faults.per_mille_effect);
    if (fails && prng_.Below(2) == 0) {
      answers.emplace_back(Error(ErrorCode::kUnavailable, "not done"));
      continue;
    }
    Status status = CarryOut(effect);
    CheckWorld();
    if (fails) {
      status = Error(ErrorCode::kUnavailable, "done, and the answer was lost");
    }
    answers.push_back(std::move(status));
  }
  return answers;
}

void SimCluster::Publish(const JobId& /*key*/, const Decision& decision) {
  for (const MetricDelta& delta : decision.metrics) {
    published_restarts += delta.metric == Metric::kRestarts ? delta.count : 0;
  }
}

void SimCluster::Restart() {
  is_dead_ = false;
  Refresh();
}

void SimCluster::Suspend(bool suspend) {
  job_.spec.run_policy.suspend = suspend;
  Refresh();
}

void SimCluster::Tick() {
  std::vector<std::string> names;
  for (const auto& [name, pod] : pods_) {
    names.push_back(name);
  }
  for (const std::string& name : names) {
    TickPod(name);
  }
  CheckWorld();
}

void SimCluster::FinishWork() {
  for (auto& [name, sim] : pods_) {
    if (sim.pod.status.phase == kube::PodPhase::kRunning && IsCurrent(sim.pod)) {
      End(0, &sim);
    }
  }
}

bool SimCluster::GangRuns() const {
  std::size_t running = 0;
  for (const auto& [name, sim] : pods_) {
    running +=
        sim.pod.status.phase == kube::PodPhase::kRunning && !sim.is_hung && IsCurrent(sim.pod) ? 1
                                                                                               : 0;
  }
  return running > 0 && running == job_.status.placement.size();
}

std::size_t SimCluster::live_pod_count() const {
  return static_cast<std::size_t>(std::count_if(
      pods_.begin(), pods_.end(), [](const auto& one) { return !HasEnded(one.second.pod); }));
}

std::string SimCluster::Describe() const {
  std::string text = "attempt " + std::to_string(job_.status.attempt.value()) + " epoch " +
                     std::to_string(job_.status.epoch.value()) + " [" +
                     TrueConditions(job_.status) + "] restarts " + DescribeRestarts(job_.status) +
                     " failed '" + MessageOf(job_.status, ConditionType::kFailed) + "' pods";
  for (const auto& [name, sim] : pods_) {
    text += " " + name + ":" + kube::PodPhaseName(sim.pod.status.phase) +
            (sim.pod.is_deleting ? "-" : "") + (sim.is_hung ? "!" : "");
  }
  return text;
}

bool SimCluster::Dies() {
  is_dead_ = is_dead_ || Happens(faults.per_mille_crash);
  return is_dead_;
}

void SimCluster::Require(bool holds, const std::string& what) {
  if (!holds && problem.empty()) {
    problem = what + ": " + Describe();
  }
}

bool SimCluster::IsCurrent(const kube::Pod& pod) const {
  const PodIdentityLabels identity = ParsePodLabels(pod.labels).value();
  const PodPlacement* const placement = FindPlacement(job_.status, identity.task);
  return identity.number.attempt == job_.status.attempt && placement != nullptr &&
         placement->incarnation == identity.number.incarnation && !HasEnded(job_.status);
}

void SimCluster::Refresh() {
  view_ = Observed{};
  view_.nodes = nodes_;
  view_.settings = settings_;
  for (const auto& [name, sim] : pods_) {
    view_.pods.push_back(sim.pod);
  }
  if (job_.spec.training.has_value()) {
    AddReports();
  }
}

void SimCluster::AddReports() {
  for (const auto& [name, sim] : pods_) {
    if (sim.pod.status.phase != kube::PodPhase::kRunning) {
      continue;
    }
    const PodIdentityLabels identity = ParsePodLabels(sim.pod.labels).value();
    RuntimeReport report;
    report.age = sim.is_hung ? std::chrono::seconds(3) : milliseconds(100);
    report.document.attempt = identity.number.attempt;
    report.document.incarnation = identity.number.incarnation;
    report.document.rank = identity.rank;
    report.document.epoch = job_.status.epoch;
    for (const auto& [other_name, other] : pods_) {
      const PodIdentityLabels peer = ParsePodLabels(other.pod.labels).value();
      report.document.peers.push_back({*peer.rank,
                                       peer.number.incarnation,
                                       other.is_hung ? PeerState::kSilent : PeerState::kConnected,
                                       "",
                                       other.is_hung ? 3.0 : 0.0});
    }
    view_.reports[name] = report;
  }
}

Status SimCluster::CarryOut(const Effect& effect) {
  if (const auto* create = std::get_if<CreatePod>(&effect)) {
    if (pods_.count(create->pod.name) > 0) {
      return Error(ErrorCode::kAlreadyExists, create->pod.name);
    }
    SimPod sim{create->pod, false};
    sim.pod.uid = "pod-" + std::to_string(next_uid_++);
    pods_[create->pod.name] = sim;
    return OkStatus();
  }
  if (const auto* removal = std::get_if<DeletePod>(&effect)) {
    const auto found = pods_.find(removal->name);
    if (found == pods_.end() || found->second.pod.uid != removal->uid) {
      return Error(ErrorCode::kNotFound, removal->name);
    }
    if (found->second.pod.status.phase == kube::PodPhase::kRunning) {
      found->second.pod.is_deleting = true;
    } else {
      pods_.erase(found);
    }
  }
  return OkStatus();
}

void SimCluster::End(int code, SimPod* sim) {
  sim->is_hung = false;
  sim->pod.status.phase = code == 0 ? kube::PodPhase::kSucceeded : kube::PodPhase::kFailed;
  kube::ContainerTermination termination;
  termination.exit_code = code;
  termination.signal = code > 128 ? code - 128 : 0;
  sim->pod.status.termination = termination;
}

bool SimCluster::MayHang(const SimPod& sim) const {
  const auto healthy = std::count_if(pods_.begin(), pods_.end(), [&](const auto& one) {
    return one.second.pod.status.phase == kube::PodPhase::kRunning && !one.second.is_hung &&
           !one.second.pod.is_deleting && IsCurrent(one.second.pod);
  });
  return job_.spec.training.has_value() && IsCurrent(sim.pod) && !sim.is_hung &&
         sim.pod.status.phase == kube::PodPhase::kRunning && healthy >= 2;
}

void SimCluster::TickPod(const std::string& name) {
  SimPod& sim = pods_.at(name);
  if (HasEnded(sim.pod)) {
    if (sim.pod.is_deleting) {
      pods_.erase(name);
    }
    return;
  }
  if (sim.pod.is_deleting) {
    if (prng_.Below(3) == 0) {
      pods_.erase(name);
    }
    return;
  }
  const bool counts = IsCurrent(sim.pod);
  const PodIdentityLabels identity = ParsePodLabels(sim.pod.labels).value();
  // A pod that nobody has seen yet is simply created again, so only seen ones are of interest.
  const bool was_seen = counts && FindPlacement(job_.status, identity.task)->pod_uid == sim.pod.uid;
  if (was_seen && Happens(faults.per_mille_vanish)) {
    pods_.erase(name);
    ++vanished;
  } else if (Happens(faults.per_mille_death)) {
    constexpr int kCodes[] = {137, 139, 143, 75, 70};
    End(kCodes[prng_.Below(5)], &sim);
  } else if (MayHang(sim) && Happens(faults.per_mille_hang)) {
    sim.is_hung = true;
  } else {
    if (sim.pod.status.phase == kube::PodPhase::kPending && prng_.Below(2) == 0) {
      sim.pod.status.phase = kube::PodPhase::kRunning;
    }
    return;
  }
  if (counts) {
    casualties.emplace(identity.task, identity.number);
  }
}

void SimCluster::CheckWorld() {
  std::map<TaskId, std::vector<const kube::Pod*>> live;
  std::set<Attempt> attempts;
  for (const auto& [name, sim] : pods_) {
    const PodIdentityLabels identity = ParsePodLabels(sim.pod.labels).value();
    Require(identity.number.attempt <= job_.status.attempt, name + " is of a later attempt");
    if (identity.number.attempt == job_.status.attempt) {
      const PodPlacement* const placement = FindPlacement(job_.status, identity.task);
      Require(placement != nullptr && identity.number.incarnation <= placement->incarnation,
              name + " stands where the status knows of nothing");
    }
    if (!HasEnded(sim.pod)) {
      live[identity.task].push_back(&sim.pod);
      attempts.insert(identity.number.attempt);
    }
  }
  Require(attempts.size() <= 1, "pods of two attempts live side by side");
  const bool shares_address = std::holds_alternative<LoopbackAddressing>(settings_.addressing);
  for (const auto& [task, pods] : live) {
    const auto unasked = std::count_if(
        pods.begin(), pods.end(), [](const kube::Pod* pod) { return !pod->is_deleting; });
    Require(unasked <= 1, TaskName(task) + " has two pods");
    Require(!shares_address || pods.size() <= 1, TaskName(task) + " has one address twice");
  }
}

void SimCluster::CheckWrite(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  Require(before.attempt <= after.attempt, "the attempt decreased");
  Require(before.epoch <= after.epoch, "the epoch decreased");
  Require(before.control_counter <= after.control_counter, "the control counter decreased");
  int64_t replaced = 0;
  for (const PodPlacement& placement : after.placement) {
    const PodPlacement* const old = FindPlacement(job_.status, TaskOf(placement));
    if (old != nullptr && before.attempt == after.attempt) {
      Require(old->incarnation <= placement.incarnation, "an incarnation decreased");
      replaced += placement.incarnation.value() - old->incarnation.value();
    }
  }
  const bool is_suspending = job_.spec.run_policy.suspend;
  if (is_suspending) {
    // Deaths that nobody had answered are given up together with the gang.
    for (const PodPlacement& placement : before.placement) {
      casualties.erase({TaskOf(placement), {before.attempt, placement.incarnation}});
    }
  }
  const int64_t new_attempts = is_suspending ? 0 : after.attempt.value() - before.attempt.value();
  const auto total = [](const TrainingJobStatus& status) { return TotalRestarts(status); };
  const int64_t rolled_back = std::max<int64_t>(0, after.rollbacks - before.rollbacks);
  Require(total(after) - total(before) + rolled_back == replaced + new_attempts,
          "a restart was not counted with its decision");
  Require(CountedIncidents(after.incidents) <= job_.spec.run_policy.backoff_limit,
          "the budget was exceeded");
  for (const ConditionType type : {ConditionType::kSucceeded, ConditionType::kFailed}) {
    Require(!IsTrue(before, type) || IsTrue(after, type), "an end was taken back");
  }
  Require(!IsTrue(after, ConditionType::kSucceeded) || !IsTrue(after, ConditionType::kFailed),
          "succeeded and failed");
  Require(after.placement.empty() || after.placement.size() == PodCount(), "half a gang is placed");
}

}  // namespace lockstep::control
