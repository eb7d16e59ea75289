#include "operator/scheduler/testing/fake_nodes.h"

#include <sstream>

namespace lockstep::control {
namespace {

const char* ConstraintName(Constraint constraint) {
  switch (constraint) {
    case Constraint::kNodes:
      return "nodes";
    case Constraint::kNodeSelector:
      return "node_selector";
    case Constraint::kTaint:
      return "taint";
    case Constraint::kGpu:
      return "gpu";
    case Constraint::kMemory:
      return "memory";
    case Constraint::kCpu:
      return "cpu";
    case Constraint::kResource:
      return "resource";
    case Constraint::kPods:
      return "pods";
    case Constraint::kFragmentation:
      return "fragmentation";
    case Constraint::kSearchLimit:
      return "search_limit";
    case Constraint::kQueue:
      return "queue";
    case Constraint::kQuota:
      return "quota";
    case Constraint::kPreemption:
      return "preemption";
    case Constraint::kPriorityClass:
      return "priority class";
    case Constraint::kNamespace:
      return "namespace";
    case Constraint::kTopology:
      return "topology";
    case Constraint::kRound:
      return "round";
  }
  return "unknown";
}

}  // namespace

SnapshotNode MakeNode(const std::string& name, ResourceVector allocatable, ResourceVector used) {
  SnapshotNode node;
  node.name = name;
  node.allocatable = allocatable;
  node.used = used;
  return node;
}

PodClass MakeClass(const std::string& name, int count, ResourceVector request) {
  PodClass pod_class;
  pod_class.name = name;
  pod_class.request = request;
  for (int i = 0; i < count; ++i) {
    pod_class.pods.push_back(name + "-" + std::to_string(i));
  }
  return pod_class;
}

std::string Show(const PlanResult& result) {
  std::ostringstream out;
  if (const auto* plan = std::get_if<Plan>(&result)) {
    for (const auto& [pod, node] : plan->node_by_pod) {
      out << pod << "@" << node << " ";
    }
  } else {
    const auto& refusal = std::get<Unschedulable>(result);
    out << ConstraintName(refusal.constraint) << ": " << refusal.shortfall;
  }
  return out.str();
}

}  // namespace lockstep::control
