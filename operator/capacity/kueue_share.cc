#include "operator/capacity/kueue_share.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/status/conditions.h"
#include "operator/capacity/kueue_workload.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {
namespace {

// Conditions of a Workload, and reasons that Kueue knows.
// Source: kueue.x-k8s.io/v1beta2, workload_types.go.
constexpr const char* kQuotaReserved = "QuotaReserved";
constexpr const char* kAdmitted = "Admitted";
constexpr const char* kEvicted = "Evicted";
constexpr const char* kFinished = "Finished";
constexpr const char* kPodsReady = "PodsReady";
constexpr const char* kRequeued = "Requeued";
constexpr const char* kWaitForStart = "WaitForStart";
constexpr const char* kWaitForRecovery = "WaitForRecovery";

constexpr const char* kKueueNotFollowed =
    "the label kueue.x-k8s.io/queue-name needs Kueue, but this operator does not watch Workloads "
    "of kueue.x-k8s.io/v1beta2; install Kueue 0.15 or later, and set kueue.enabled of the chart "
    "(the flag --kueue)";

CapacityWait WaitsForKueue(const DecisionBuilder& builder, const std::string& why) {
  return {"WaitsForKueue",
          "waits in Kueue's queue " + KueueQueueOf(builder.job().metadata) + ": " + why};
}

bool HasLivingPods(const GangView& view, const DecisionBuilder& builder) {
  return std::any_of(view.stale.begin(), view.stale.end(), [&](const kube::Pod* pod) {
    return IsAlive(*pod, builder.observed());
  });
}

bool HoldsQuota(const WorkloadSight& workload) {
  return workload.admission.has_value() || IsWorkload(workload, kQuotaReserved);
}

bool AsksForTheSame(const WorkloadSight& workload, const DecisionBuilder& builder) {
  return workload.revision == WorkloadRevision(builder.job());
}

// Why the job cannot be shown to Kueue at all; an empty message: it can.
CapacityWait WhyNotShown(const DecisionBuilder& builder) {
  const KueueSight& kueue = builder.observed().kueue;
  if (!kueue.is_followed) {
    return {"KueueNotFollowed", kKueueNotFollowed, EventType::kWarning};
  }
  if (const std::string label = UnheededKueueLabel(builder.job().metadata); !label.empty()) {
    return {"KueueLabelNotHeeded",
            "label " + label +
                " cannot be used: of Kueue's labels, Lockstep uses only kueue.x-k8s.io/queue-name. "
                "Remove the label; the priority comes from scheduling.priorityClassName",
            EventType::kWarning};
  }
  if (!kueue.missing_class.empty()) {
    return {"NoPriorityClass", kueue.missing_class, EventType::kWarning};
  }
  return {};
}

// "; the flavors ask for nodes with zone=a, and the template of worker for zone=b"; empty: no such.
std::string ConflictOf(const KueueAdmission& admission, const TrainingJob& job) {
  for (const KueuePodSet& pod_set : admission.pod_sets) {
    const RoleSpec* const role = job.FindRole(pod_set.role);
    if (role == nullptr) {
      continue;
    }
    for (const auto& [key, value] : pod_set.node_selector) {
      const auto own = role->pod.node_selector.find(key);
      if (own != role->pod.node_selector.end() && own->second != value) {
        return "Kueue assigned nodes with " + key + "=" + value + ", but the template of " +
               std::string(RoleName(pod_set.role)) + " selects " + key + "=" + own->second;
      }
    }
  }
  return "";
}

// Why the Workload gives no share yet; an empty message: it does.
CapacityWait WhyNotAdmitted(const WorkloadSight& workload, const DecisionBuilder& builder) {
  if (!workload.is_ours) {
    return {"WorkloadNameTaken",
            "Workload " + WorkloadName(builder.job().metadata) + " does not belong to this job",
            EventType::kWarning};
  }
  if (workload.is_deleting || IsWorkload(workload, kFinished) ||
      !AsksForTheSame(workload, builder)) {
    return WaitsForKueue(builder, "the job's earlier Workload is deleted first");
  }
  if (IsWorkload(workload, kEvicted) && HoldsQuota(workload)) {
    return WaitsForKueue(builder,
                         "Kueue took the job's quota back: " + WorkloadMessage(workload, kEvicted));
  }
  if (!IsWorkload(workload, kAdmitted)) {
    const std::string words = WorkloadMessage(workload, kQuotaReserved);
    return WaitsForKueue(builder, words.empty() ? "Kueue has not answered yet" : words);
  }
  if (!workload.problem.empty() || !workload.admission.has_value()) {
    return {"KueueNotHeeded",
            workload.problem.empty() ? "Kueue admitted the job, but named no cluster queue"
                                     : workload.problem,
            EventType::kWarning};
  }
  if (std::string conflict = ConflictOf(*workload.admission, builder.job()); !conflict.empty()) {
    return {"KueueNotHeeded", std::move(conflict), EventType::kWarning};
  }
  return {};
}

CapacityWait WhyNoShare(const DecisionBuilder& builder) {
  if (CapacityWait wait = WhyNotShown(builder); !wait.message.empty()) {
    return wait;
  }
  const KueueSight& kueue = builder.observed().kueue;
  if (kueue.workload.has_value()) {
    return WhyNotAdmitted(*kueue.workload, builder);
  }
  return WaitsForKueue(builder,
                       kueue.refusal.empty() ? "the job's Workload is being created"
                                             : "the job's Workload was refused: " + kueue.refusal);
}

// Why a gang loses the share that it has its places by; empty: it keeps it.
std::string WhyLost(const DecisionBuilder& builder) {
  const std::optional<WorkloadSight>& workload = builder.observed().kueue.workload;
  if (!workload.has_value() || workload->is_deleting ||
      workload->uid != builder.status().kueue->workload_uid) {
    return "Kueue took the job's quota back: the job's Workload was deleted";
  }
  if (IsWorkload(*workload, kFinished)) {
    return "Kueue took the job's quota back: the job's Workload was marked as finished: " +
           WorkloadMessage(*workload, kFinished);
  }
  if (IsWorkload(*workload, kEvicted)) {
    return "Kueue took the job's quota back (" + WorkloadReason(*workload, kEvicted) +
           "): " + WorkloadMessage(*workload, kEvicted);
  }
  return IsWorkload(*workload, kAdmitted)
             ? ""
             : "Kueue took the job's quota back: the job's Workload is no longer admitted";
}

void Patch(const WorkloadSight& workload,
           const std::vector<WorkloadCondition>& changes,
           bool gives_up_quota,
           DecisionBuilder* builder) {
  builder->Do(
      WriteObject{WriteObject::Kind::kPatch,
                  kube::kWorkloads,
                  WorkloadName(builder->job().metadata),
                  workload.uid,
                  DumpJson(WorkloadPatch(workload, changes, gives_up_quota, builder->now()))});
}

void TellEnd(const WorkloadSight& workload, DecisionBuilder* builder) {
  if (IsWorkload(workload, kFinished)) {
    return;
  }
  const bool has_succeeded = IsTrue(builder->status(), ConditionType::kSucceeded);
  const Condition* const end = FindCondition(
      builder->status(), has_succeeded ? ConditionType::kSucceeded : ConditionType::kFailed);
  Patch(workload,
        {{kFinished, true, has_succeeded ? "Succeeded" : "Failed", end->message}},
        /*gives_up_quota=*/false,
        builder);
}

// Kueue may be told to take quota back from who does not start in time.
void TellReadiness(const WorkloadSight& workload, DecisionBuilder* builder) {
  if (!IsWorkload(workload, kAdmitted) || IsWorkload(workload, kEvicted)) {
    return;
  }
  const std::string before = WorkloadReason(workload, kPodsReady);
  const bool has_been_ready = IsWorkload(workload, kPodsReady) || before == kWaitForRecovery;
  const WorkloadCondition ready =
      IsTrue(builder->status(), ConditionType::kRunning)
          ? WorkloadCondition{kPodsReady,
                              true,
                              before == kWaitForRecovery || before == "Recovered" ? "Recovered"
                                                                                  : "Started",
                              "all pods run"}
          : WorkloadCondition{kPodsReady,
                              false,
                              has_been_ready ? kWaitForRecovery : kWaitForStart,
                              "not all pods run"};
  if (before != ready.reason) {
    Patch(workload, {ready}, /*gives_up_quota=*/false, builder);
  }
}

// Why quota is given back.
struct Return {
  std::string reason;  // one CamelCase word
  std::string message;
  bool comes_again = false;  // Kueue is to look at it at once
};

void GiveUpQuota(const WorkloadSight& workload, const Return& why, DecisionBuilder* builder) {
  Patch(workload,
        {{kQuotaReserved, false, "Pending", why.message},
         {kAdmitted, false, "NoReservation", "The workload has no reservation"},
         {kPodsReady, false, kWaitForStart, "not all pods run"},
         {kRequeued, why.comes_again, why.reason, why.message}},
        /*gives_up_quota=*/true,
        builder);
}

// What Kueue asks of whoever runs a Workload that it evicted, once nothing of it runs any more.
void AnswerEviction(const WorkloadSight& workload, DecisionBuilder* builder) {
  const std::string reason = WorkloadReason(workload, kEvicted);
  const bool comes_again = reason == "Preempted" || reason == "NodeFailures";
  GiveUpQuota(workload, {reason, WorkloadMessage(workload, kEvicted), comes_again}, builder);
}

// Its quota is given back first: Kueue 0.17 counts that of a Workload which is gone for as long as
// there is another of its name, and the next one may come before Kueue has noticed.
void Remove(const WorkloadSight& workload, DecisionBuilder* builder) {
  if (HoldsQuota(workload) && !IsWorkload(workload, kFinished)) {
    GiveUpQuota(workload,
                {"JobChanged", "the job has changed and needs a different quota, or none", false},
                builder);
    return;
  }
  builder->Do(WriteObject{WriteObject::Kind::kDelete,
                          kube::kWorkloads,
                          WorkloadName(builder->job().metadata),
                          workload.uid,
                          ""});
}

// Of a job without places, all of whose pods are gone. While its priority is not known nothing is
// asked for, and nothing given up.
void TellWish(DecisionBuilder* builder) {
  const KueueSight& kueue = builder->observed().kueue;
  const std::string name = WorkloadName(builder->job().metadata);
  const bool wants_share = !builder->spec().run_policy.suspend &&
                           !KueueQueueOf(builder->job().metadata).empty() &&
                           UnheededKueueLabel(builder->job().metadata).empty();
  if (!kueue.workload.has_value()) {
    if (wants_share && kueue.missing_class.empty()) {
      builder->Do(WriteObject{WriteObject::Kind::kCreate,
                              kube::kWorkloads,
                              name,
                              "",
                              DumpJson(WorkloadManifest(builder->job(), kueue.priority))});
    }
    return;
  }
  const WorkloadSight& workload = *kueue.workload;
  if (!wants_share || IsWorkload(workload, kFinished) || !AsksForTheSame(workload, *builder)) {
    Remove(workload, builder);
  } else if (IsWorkload(workload, kEvicted) && HoldsQuota(workload)) {
    AnswerEviction(workload, builder);
  } else {
    TellReadiness(workload, builder);
  }
}

}  // namespace

std::optional<CapacityWait> AwaitKueueShare(const GangView& view, DecisionBuilder* builder) {
  std::optional<KueueAdmission>* const share = &builder->mutable_external()->kueue;
  std::optional<RoomClaim>* const claim = &builder->mutable_waiting()->claim;
  if (KueueQueueOf(builder->job().metadata).empty() || builder->observed().is_one_machine) {
    share->reset();
    return std::nullopt;
  }
  const CapacityWait wait = WhyNoShare(*builder);
  const bool has_share = wait.message.empty();
  if (!has_share) {
    share->reset();
    claim->reset();  // no round looks after it meanwhile
  }
  if (HasLivingPods(view, *builder)) {
    return std::nullopt;  // whoever looks for places waits for these first, and says so
  }
  if (!has_share) {
    return wait;
  }
  const KueueAdmission& admission = *builder->observed().kueue.workload->admission;
  if (*share != admission) {
    *share = admission;
    claim->reset();  // it was planned as another admission said
    return CapacityWait{"KueueAdmitted",
                        "Kueue admitted the job to cluster queue " + admission.cluster_queue,
                        EventType::kNormal,
                        /*is_momentary=*/true};  // a round plans it as it is stored
  }
  return std::nullopt;
}

std::string LoseKueueShare(DecisionBuilder* builder) {
  if (!builder->status().kueue.has_value() || !builder->observed().kueue.is_followed) {
    return "";
  }
  std::string why = WhyLost(*builder);
  if (!why.empty()) {
    builder->mutable_external()->kueue.reset();
  }
  return why;
}

void TellKueue(const GangView& view, DecisionBuilder* builder) {
  const KueueSight& kueue = builder->observed().kueue;
  if (!kueue.is_followed) {
    return;
  }
  if (builder->spec().run_policy.suspend) {
    builder->mutable_external()->kueue.reset();
  }
  const bool is_writable =
      !kueue.workload.has_value() || (kueue.workload->is_ours && !kueue.workload->is_deleting);
  if (!is_writable) {
    return;
  }
  if (HasEnded(builder->status()) || !builder->status().placement.empty()) {
    if (!kueue.workload.has_value()) {
      return;
    }
    if (HasEnded(builder->status())) {
      TellEnd(*kueue.workload, builder);
    } else {
      TellReadiness(*kueue.workload, builder);
    }
  } else if (!HasLivingPods(view, *builder)) {
    TellWish(builder);
  }
}

}  // namespace lockstep::control
