#include "operator/reconcile/start/old_pods.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/left_over.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// What an administrator puts on a node that is known to be off.
constexpr std::string_view kOutOfService = "node.kubernetes.io/out-of-service";

// Whether the pod's process may still do something that nobody refuses.
bool MayStillWrite(const kube::Pod& pod, const DecisionBuilder& builder) {
  return !HasEnded(pod) && !pod.spec.node_name.empty() && !pod.status.is_unbound &&
         !MayBeForced(pod, builder);
}

// ". Even then, the pod stays until its finalizers example.com/a are removed"; empty where it has
// none.
std::string WhoKeeps(const kube::Pod& pod) {
  return pod.finalizers.empty() ? ""
                                : ". Even then, the pod stays until its finalizers " +
                                      JoinFinalizers(pod) + " are removed";
}

// Why the pod is waited for longer than its grace; empty while all is as it should be.
std::string WhyStuck(const kube::Pod& pod, const DecisionBuilder& builder) {
  const std::string& node = pod.spec.node_name;
  if (pod.is_deleting && !IsNodeReady(builder.observed(), node)) {
    return "waits for pod " + pod.name + ": node " + node +
           " does not report, and the program there may still write. The job continues when the "
           "node reports, is removed, or has the taint " +
           std::string(kOutOfService) + WhoKeeps(pod);
  }
  if (IsOverdue(pod, builder.now())) {
    return "waits for pod " + pod.name + ", which does not end on node " + node +
           " although its grace period is over. The job continues when the pod has ended, or when "
           "the node is removed or has the taint " +
           std::string(kOutOfService) + WhoKeeps(pod);
  }
  return "";
}

// ", which does not end on node n0 ...": why a pod of an earlier job stays beyond its grace; empty
// while that is not over. The job is gone: whether its program may be cut off in the middle of its
// writing nobody here knows.
std::string WhyNodeKeeps(const kube::Pod& pod, const DecisionBuilder& builder) {
  const std::string& node = pod.spec.node_name;
  if (pod.is_deleting && !HasEnded(pod) && !node.empty() &&
      !IsNodeReady(builder.observed(), node)) {
    return ", whose node " + node + " does not report";
  }
  return IsOverdue(pod, builder.now())
             ? ", which does not end on node " + node + " although its grace period is over"
             : "";
}

}  // namespace

bool MayBeForced(const kube::Pod& pod, const DecisionBuilder& builder) {
  const kube::Node* const node = FindNode(builder.observed(), pod.spec.node_name);
  if (builder.is_training() || node == nullptr || pod.status.reason == "NodeLost") {
    return true;
  }
  return std::any_of(node->taints.begin(), node->taints.end(), [](const Taint& taint) {
    return taint.key == kOutOfService;
  });
}

bool WaitsForOldPods(const GangView& view, DecisionBuilder* builder) {
  bool waits = false;
  for (const kube::Pod* pod : view.stale) {
    if (!IsAlive(*pod, builder->observed()) && !MayStillWrite(*pod, *builder)) {
      continue;
    }
    waits = true;
    const std::string why = WhyStuck(*pod, *builder);
    if (!why.empty()) {
      builder->Set({ConditionType::kScheduled, false, std::string(kReasonPodStuck), why},
                   EventType::kWarning);
      return true;
    }
    if (const auto overdue = OverdueAt(*pod)) {
      builder->WakeAt(*overdue);
    }
  }
  return waits;
}

bool WaitsForLeftOvers(DecisionBuilder* builder) {
  const TrainingJob& job = builder->job();
  std::set<std::string> names;
  for (const TaskId& task : AllTasks(builder->topology())) {
    names.insert(PodName(job.metadata.name, task, {builder->status().attempt, Incarnation()}));
  }
  std::vector<const kube::Pod*> left_over;
  for (const kube::Pod& pod : builder->observed().pods) {
    if (IsLeftOver(pod, job.metadata) && names.count(pod.name) > 0) {
      builder->Delete(pod, pod.spec.termination_grace, "left by an earlier job of this name");
      left_over.push_back(&pod);
    }
  }
  if (left_over.empty()) {
    return false;
  }
  // What somebody has to see to is told first.
  const kube::Pod* first = nullptr;
  std::string why;
  for (const kube::Pod* pod : left_over) {
    const std::string why_now = WhyNodeKeeps(*pod, *builder);
    if (const auto overdue = OverdueAt(*pod); overdue.has_value() && why_now.empty()) {
      builder->WakeAt(*overdue);
    }
    const bool is_worse = first == nullptr || (why.empty() && !why_now.empty()) ||
                          (why.empty() && first->finalizers.empty() && !pod->finalizers.empty());
    if (is_worse) {
      first = pod;
      why = why_now;
    }
  }
  const bool is_held = !why.empty() || !first->finalizers.empty();
  builder->Set({ConditionType::kScheduled,
                false,
                std::string(why.empty() ? kReasonNameTaken : kReasonPodStuck),
                "waits for " + DescribeLeftOver(*first) + why +
                    ". The job continues when the pod is deleted"},
               is_held ? EventType::kWarning : EventType::kNormal);
  return true;
}

bool WaitsForDisowned(DecisionBuilder* builder) {
  if (builder->is_training()) {
    return false;  // whatever it still does is refused by its epoch
  }
  for (const kube::Pod& pod : builder->observed().pods) {
    if (!IsDisowned(pod, builder->job().metadata) || !IsAlive(pod, builder->observed())) {
      continue;
    }
    builder->Set({ConditionType::kScheduled,
                  false,
                  std::string(kReasonNameTaken),
                  "waits for pod " + pod.name +
                      ", which no longer belongs to the job, because somebody removed its "
                      "ownerReference. It may still run, and its replacement would then write "
                      "the same files. To continue, run kubectl delete pod " +
                      pod.name + " --namespace " + pod.namespace_name},
                 EventType::kWarning);
    return true;
  }
  return false;
}

}  // namespace lockstep::control
