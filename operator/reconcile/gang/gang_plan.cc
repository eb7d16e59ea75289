#include "operator/reconcile/gang/gang_plan.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "operator/api/job/template_parts.h"
#include "operator/kubeclient/kube/pod_requests.h"
#include "operator/reconcile/gang/suspect_nodes.h"

namespace lockstep::control {
namespace {

// GPUs stand in a field of the role.
ResourceVector WithGpus(ResourceVector amounts, int64_t gpus) {
  amounts.gpu_count = gpus;
  return amounts;
}

// Ports of the node that each pod of the role takes: with its network all that it listens on.
ResourceVector HostPortsOf(const RoleSpec& role) {
  ResourceVector taken;
  std::vector<Error> ignored;
  const Json& pod = PodSpecOf(role.pod);
  ObjectReader spec(pod, "", &ignored);
  const bool has_host_network = spec.Bool("hostNetwork").value_or(false);
  for (const Json* container : spec.List("containers")) {
    ObjectReader fields(*container, "", &ignored);
    for (const Json* port : fields.List("ports")) {
      ObjectReader one(*port, "", &ignored);
      const char* const field = has_host_network ? "containerPort" : "hostPort";
      if (const std::optional<int64_t> number = one.Int(field, 0)) {
        taken.Set(HostPortResource(*number), 1);
      }
    }
  }
  if (has_host_network && role.supervise) {
    taken.Set(HostPortResource(kMeshPort), 1);
    taken.Set(HostPortResource(kStatusPort), 1);
  }
  return taken;
}

PodClass ClassOf(const TrainingJob& job, const RoleSpec& role) {
  PodClass pod_class;
  pod_class.name = RoleName(role.name);
  pod_class.request = PlannedRequests(job, role);
  pod_class.node_selector = role.pod.node_selector;
  pod_class.tolerations = role.pod.tolerations;
  pod_class.node_affinity = role.pod.node_affinity;
  if (const KueuePodSet* const admitted = FindPodSet(job.status.kueue, role.name)) {
    pod_class.node_selector.insert(admitted->node_selector.begin(), admitted->node_selector.end());
    pod_class.tolerations.insert(
        pod_class.tolerations.end(), admitted->tolerations.begin(), admitted->tolerations.end());
  }
  return pod_class;
}

NodeState NodeStateOf(const kube::Node& node) {
  if (!node.is_ready) {
    return NodeState::kNotReady;
  }
  return node.is_schedulable ? NodeState::kOpen : NodeState::kCordoned;
}

ResourceVector AmountsOf(const std::vector<RoleAmount>& amounts, Role role) {
  ResourceVector sum;
  for (const RoleAmount& one : amounts) {
    if (one.role == role) {
      sum.Set(one.resource, one.amount);
    }
  }
  return sum;
}

}  // namespace

SnapshotNode SnapshotNodeOf(const kube::Node& node) {
  SnapshotNode place;
  place.name = node.name;
  place.labels = node.labels;
  place.allocatable = node.allocatable;
  place.state = NodeStateOf(node);
  place.pod_count_max = node.pod_count_max;
  for (const Taint& taint : node.taints) {
    if (taint.effect != "PreferNoSchedule") {
      place.taints.push_back(taint);
    }
  }
  return place;
}

NodeUsage UsedElsewhereOn(const std::string& node, const UsedElsewhere& used) {
  UsageByNode sum;
  for (const UsageByNode* const part : {&*used.by_jobs, &*used.by_others}) {
    if (const auto found = part->find(node); found != part->end()) {
      AddUsage({*found}, &sum);
    }
  }
  if (const auto found = used.own.find(node); found != used.own.end()) {
    SubtractUsage({*found}, &sum);
  }
  return sum[node];
}

Snapshot SnapshotOf(const Observed& observed, const GangView& view) {
  Snapshot snapshot;
  snapshot.is_one_machine = observed.is_one_machine;
  for (const kube::Node& node : *observed.nodes) {
    SnapshotNode place = SnapshotNodeOf(node);
    if (observed.is_one_machine) {  // nobody rations its disk
      place.allocatable.Set(kEphemeralStorageResource, std::numeric_limits<int64_t>::max());
    }
    NodeUsage used = UsedElsewhereOn(node.name, observed.used_elsewhere);
    place.used = std::move(used.resources);
    place.pod_count = used.pod_count;
    for (const kube::Pod* pod : view.stale) {
      if (pod->spec.node_name == node.name && IsAlive(*pod, observed)) {
        place.used = Sum(place.used, pod->spec.container.requests);
        ++place.pod_count;
      }
    }
    snapshot.nodes.push_back(place);
  }
  return snapshot;
}

Snapshot SnapshotWithoutJobs(const Observed& observed) {
  Snapshot snapshot;
  for (const kube::Node& node : *observed.nodes) {
    snapshot.nodes.push_back(SnapshotNodeOf(node));
    const auto used = observed.used_elsewhere.by_others->find(node.name);
    if (used != observed.used_elsewhere.by_others->end()) {
      snapshot.nodes.back().used = used->second.resources;
      snapshot.nodes.back().pod_count = used->second.pod_count;
    }
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
        node.used = Sum(node.used, PlannedRequests(job, *job.FindRole(member.task.role)));
        ++node.pod_count;
      }
    }
  }
  return snapshot;
}

void MarkSuspects(const TrainingJobStatus& status, WallTime now, Snapshot* snapshot) {
  for (SnapshotNode& node : snapshot->nodes) {
    node.suspicion = SuspicionOf(status.suspect_nodes, node.name, now);
  }
}

ResourceVector RequestsOf(const RoleSpec& role) {
  kube::PodRequests requests;
  requests.AddContainer(WithGpus(role.pod.requests, role.gpus));
  for (const InitContainer& container : role.pod.init_containers) {
    requests.AddInitContainer(WithGpus(container.requests, 0), container.is_sidecar);
  }
  requests.AddOverhead(role.pod.overhead);
  requests.SetPodLevel(role.pod.pod_requests);
  return Sum(requests.Sum(), HostPortsOf(role));
}

ResourceVector PlannedRequests(const TrainingJob& job, const RoleSpec& role) {
  return Larger(RequestsOf(role), AmountsOf(job.status.admitted, role.name));
}

std::vector<RoleAmount> PlannedAmounts(const TrainingJob& job) {
  std::vector<RoleAmount> amounts;
  for (const RoleSpec& role : job.spec.roles) {
    for (NamedAmount& one : PlannedRequests(job, role).AllWithPorts()) {
      amounts.push_back({role.name, std::move(one.name), one.amount});
    }
  }
  return amounts;
}

ResourceVector HeldRequests(const TrainingJob& job, const GangOrigin& origin, Role role) {
  if (!origin.requests.empty()) {
    return Larger(AmountsOf(origin.requests, role), AmountsOf(job.status.admitted, role));
  }
  const RoleSpec* const spec = job.FindRole(role);
  return spec == nullptr ? ResourceVector() : PlannedRequests(job, *spec);
}

Gang GangOfOne(const TrainingJob& job, const RoleSpec& role, const std::string& name) {
  PodClass pod_class = ClassOf(job, role);
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
      gang.classes.push_back(ClassOf(job, *role));
    }
    gang.classes.back().pods.push_back(TaskName(task));
  }
  return gang;
}

}  // namespace lockstep::control
