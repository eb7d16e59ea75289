#include "operator/reconcile/gang/gang_plan.h"

#include "common/base/check.h"
#include "operator/reconcile/build/pod.h"

namespace lockstep::control {
namespace {

Resources ToResources(const kube::ResourceList& list) {
  return {list.cpu_milli, list.memory_bytes, list.gpu_count};
}

void Add(const kube::ResourceList& list, Resources* sum) {
  sum->cpu_milli += list.cpu_milli;
  sum->memory_bytes += list.memory_bytes;
  sum->gpu_count += list.gpu_count;
}

PodClass ClassOf(const RoleSpec& role) {
  PodClass pod_class;
  pod_class.name = RoleName(role.name);
  pod_class.request = ToResources(RequestsOf(role));
  pod_class.node_selector = role.pod.node_selector;
  for (const Toleration& toleration : role.pod.tolerations) {
    pod_class.tolerations.push_back(
        {toleration.key,
         toleration.op == TolerationOperator::kExists,
         toleration.value,
         toleration.effect.has_value() ? std::string(TaintEffectName(*toleration.effect)) : ""});
  }
  return pod_class;
}

NodeState StateOf(const kube::Node& node) {
  if (!node.is_ready) {
    return NodeState::kNotReady;
  }
  return node.is_schedulable ? NodeState::kOpen : NodeState::kCordoned;
}

}  // namespace

Snapshot SnapshotOf(const Observed& observed, const GangView& view) {
  Snapshot snapshot;
  snapshot.is_one_machine = observed.is_one_machine;
  for (const kube::Node& node : *observed.nodes) {
    SnapshotNode place;
    place.name = node.name;
    place.labels = node.labels;
    place.allocatable = ToResources(node.allocatable);
    place.state = StateOf(node);
    place.pod_count_max = node.pod_count_max;
    for (const kube::Taint& taint : node.taints) {
      if (taint.effect != "PreferNoSchedule") {
        place.taints.push_back({taint.key, taint.value, taint.effect});
      }
    }
    if (const auto used = observed.used_elsewhere.find(node.name);
        used != observed.used_elsewhere.end()) {
      Add(used->second.resources, &place.used);
      place.pod_count = used->second.pod_count;
    }
    for (const kube::Pod* pod : view.stale) {
      if (pod->spec.node_name == node.name && IsAlive(*pod, observed)) {
        Add(pod->spec.container.requests, &place.used);
        ++place.pod_count;
      }
    }
    snapshot.nodes.push_back(place);
  }
  return snapshot;
}

Snapshot SnapshotBesideGang(const TrainingJob& job,
                            const Observed& observed,
                            const GangView& view,
                            const std::set<TaskId>& leaving) {
  Snapshot snapshot = SnapshotOf(observed, view);
  for (const Member& member : view.members) {
    if (member.state == MemberState::kSucceeded || leaving.count(member.task) > 0) {
      continue;  // a failed one keeps its place for its own successor
    }
    for (SnapshotNode& node : snapshot.nodes) {
      if (node.name == member.node) {
        Add(RequestsOf(*job.FindRole(member.task.role)), &node.used);
        ++node.pod_count;
      }
    }
  }
  return snapshot;
}

Gang GangOfOne(const RoleSpec& role, const std::string& name) {
  PodClass pod_class = ClassOf(role);
  pod_class.pods = {name};
  return {{pod_class}};
}

Gang GangOf(const TrainingJob& job, const JobTopology& topology) {
  Gang gang;
  for (const TaskId& task : AllTasks(topology)) {
    const std::string role_name(RoleName(task.role));
    if (gang.classes.empty() || gang.classes.back().name != role_name) {
      const RoleSpec* const role = job.FindRole(task.role);
      LOCKSTEP_CHECK(role != nullptr, "the job has no role " + role_name);
      gang.classes.push_back(ClassOf(*role));
    }
    gang.classes.back().pods.push_back(TaskName(task));
  }
  return gang;
}

}  // namespace lockstep::control
