#include "operator/reconcile/pods/admission_change.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "operator/api/fields/json_edit.h"
#include "operator/api/job/kueue_admission.h"
#include "operator/api/job/template_parts.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/gang_binding.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/scheduler/queue/amount_text.h"

namespace lockstep::control {
namespace {

constexpr const char* kRequiredTerms = "requiredDuringSchedulingIgnoredDuringExecution";

// What the pod asks for more of than its template.
std::vector<NamedAmount> RaisedAmounts(const RoleSpec& role, const kube::Pod& pod) {
  const ResourceVector planned = RequestsOf(role);
  const ResourceVector& made = pod.spec.container.requests;
  if (Larger(planned, made) == planned) {
    return {};
  }
  std::vector<NamedAmount> raised = made.AllWithPorts();
  std::erase_if(raised, [&](const NamedAmount& amount) {
    return amount.amount <= planned.AmountOf(amount.name);
  });
  return raised;
}

// kube-scheduler was to choose, and has: that is nobody's concern, but the condition says what is
// so.
void NoteNodesChosen(DecisionBuilder* builder) {
  const Condition* const scheduled = FindCondition(builder->status(), ConditionType::kScheduled);
  if (scheduled != nullptr && scheduled->is_true && scheduled->reason == "GangPlaced") {
    const TrainingJobStatus& status = builder->status();
    builder->SetQuietly({ConditionType::kScheduled,
                         true,
                         "GangPlaced",
                         "attempt " + std::to_string(status.attempt.value()) + ": " +
                             DescribePlaces(status) + ", placed by kube-scheduler"});
  }
}

// What the template asks a scheduler to keep beside rules about nodes, as kube::PodSpec has it.
std::set<std::string> HardRulesOf(const Json& pod_spec) {
  std::set<std::string> rules;
  const Json* const affinity = FindField(pod_spec, "affinity");
  for (const char* const kind : {"podAffinity", "podAntiAffinity"}) {
    const Json* const about = affinity == nullptr ? nullptr : FindField(*affinity, kind);
    if (about != nullptr && FindField(*about, kRequiredTerms) != nullptr) {
      rules.insert(std::string("affinity.") + kind);
    }
  }
  for (const char* const field : {"topologySpreadConstraints", "schedulingGates"}) {
    if (FindField(pod_spec, field) != nullptr) {
      rules.insert(field);
    }
  }
  return rules;
}

// By whom the template has the pod bound.
std::string SchedulerOf(const Json& pod_spec) {
  const Json* const name = FindField(pod_spec, "schedulerName");
  return name != nullptr && name->is_string() ? name->get<std::string>() : "default-scheduler";
}

std::string DescribeAdmission(const TrainingJob& job, const RoleSpec& role, const kube::Pod& pod) {
  std::string text;
  const auto add = [&](const std::string& field, const std::string& made, const std::string& ours) {
    text += (text.empty() ? "" : ", ") + field + " is " + made + ", but the template says " + ours;
  };
  const ResourceVector planned = RequestsOf(role);
  for (const NamedAmount& amount : RaisedAmounts(role, pod)) {
    add("requests." + amount.name,
        QuantityText(amount),
        QuantityText({amount.name, planned.AmountOf(amount.name)}));
  }
  std::map<std::string, std::string> selector = role.pod.node_selector;
  if (const KueuePodSet* const admitted = FindPodSet(job.status.kueue, role.name)) {
    selector.insert(admitted->node_selector.begin(), admitted->node_selector.end());
  }
  for (const auto& [key, value] : pod.spec.node_selector) {
    const auto own = selector.find(key);
    if (own == selector.end() || own->second != value) {
      add("nodeSelector." + key, value, own == selector.end() ? "absent" : own->second);
    }
  }
  const Json& spec = PodSpecOf(role.pod);
  if (const std::string ours = SchedulerOf(spec);
      !pod.spec.scheduler_name.empty() && pod.spec.scheduler_name != ours) {
    add("schedulerName", pod.spec.scheduler_name, ours);
  }
  const std::set<std::string> ours = HardRulesOf(spec);
  for (const std::string& rule : pod.spec.hard_rules) {
    if (!ours.contains(rule)) {
      add(rule, "set", "absent");
    }
  }
  return text;
}

}  // namespace

std::string WithAdmission(std::string sentence, const Member& member, const TrainingJob& job) {
  const RoleSpec* const role = job.FindRole(member.task.role);
  if (member.pod == nullptr || role == nullptr) {
    return sentence;
  }
  const std::string change = DescribeAdmission(job, *role, *member.pod);
  return change.empty() ? sentence : sentence + "; the cluster has changed the pod: " + change;
}

bool AskForMore(const TrainingJob& job, const std::vector<kube::Pod>& pods) {
  return std::any_of(pods.begin(), pods.end(), [&](const kube::Pod& pod) {
    const auto identity = IdentityOf(pod);
    const RoleSpec* const role = identity.has_value() ? job.FindRole(identity->task.role) : nullptr;
    return role != nullptr && !RaisedAmounts(*role, pod).empty();
  });
}

std::string DescribeRaised(const TrainingJobStatus& status) {
  std::string amounts;
  for (const RoleAmount& one : status.admitted) {
    amounts += (amounts.empty() ? "" : ", ") + std::string(RoleName(one.role)) + " has " +
               AmountText(one.resource, one.amount);
  }
  return amounts;
}

bool NoteRealNodes(const GangView& view, DecisionBuilder* builder) {
  std::string first;
  int64_t count = 0;
  for (const Member& member : view.members) {
    if (member.pod == nullptr || member.pod->status.is_unbound || member.node.empty() ||
        member.pod->spec.node_name.empty() || member.pod->spec.node_name == member.node) {
      continue;
    }
    builder->PlacementOf(member.task)->node = member.pod->spec.node_name;
    if (count++ == 0) {
      first = DescribeMember(member) + " was planned for node " + member.node +
              ", but is bound to node " + member.pod->spec.node_name;
    }
  }
  if (count == 0) {
    return false;
  }
  if (IsPlacedNatively(builder->status())) {
    NoteNodesChosen(builder);
    return true;
  }
  builder->Set({ConditionType::kScheduled,
                true,
                std::string(kReasonPodElsewhere),
                first +
                    (count == 1 ? ""
                                : ", and " + std::to_string(count - 1) +
                                      " more pods are not on the nodes planned for them") +
                    ": a webhook may have changed nodeName or node affinity. Lockstep accepts the "
                    "node where the pod is; the job's other placement rules may be broken there"},
               EventType::kWarning);
  return true;
}

void NoteAdmission(const GangView& view, DecisionBuilder* builder) {
  std::vector<RoleAmount>& admitted = builder->mutable_placement()->admitted;
  for (const Member& member : view.members) {
    if (member.pod == nullptr) {
      continue;
    }
    const Role role = member.task.role;
    for (const NamedAmount& raised : RaisedAmounts(*builder->job().FindRole(role), *member.pod)) {
      const auto known = std::find_if(admitted.begin(), admitted.end(), [&](const auto& one) {
        return one.role == role && one.resource == raised.name;
      });
      if (known == admitted.end()) {
        admitted.push_back({role, raised.name, raised.amount});
      } else {
        known->amount = std::max(known->amount, raised.amount);
      }
    }
  }
}

}  // namespace lockstep::control
