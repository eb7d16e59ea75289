#pragma once

#include <array>
#include <string_view>

#include "operator/scheduler/state/state_event.h"

namespace lockstep::control {

// The members of each type that a round log has lines of, each with the name that it has there: the
// one list by which they are written and read. A member that is as in an empty value is left out.

template <typename Visit>
void EachField(const NamedAmount*, const Visit& visit) {
  visit("name", &NamedAmount::name);
  visit("amount", &NamedAmount::amount);
}

template <typename Visit>
void EachField(const PortCount*, const Visit& visit) {
  visit("port", &PortCount::port);
  visit("count", &PortCount::count);
}

template <typename Visit>
void EachField(const ResourceVector*, const Visit& visit) {
  visit("cpuMilli", &ResourceVector::cpu_milli);
  visit("memoryBytes", &ResourceVector::memory_bytes);
  visit("gpus", &ResourceVector::gpu_count);
  visit("others", &ResourceVector::others);
  visit("hostPorts", &ResourceVector::host_ports);
}

template <typename Visit>
void EachField(const NodeUsage*, const Visit& visit) {
  visit("resources", &NodeUsage::resources);
  visit("pods", &NodeUsage::pod_count);
}

template <typename Visit>
void EachField(const Taint*, const Visit& visit) {
  visit("key", &Taint::key);
  visit("value", &Taint::value);
  visit("effect", &Taint::effect);
}

template <typename Visit>
void EachField(const Toleration*, const Visit& visit) {
  visit("key", &Toleration::key);
  visit("isExists", &Toleration::is_exists);
  visit("value", &Toleration::value);
  visit("effect", &Toleration::effect);
  visit("seconds", &Toleration::seconds);
}

template <typename Visit>
void EachField(const NodeRequirement*, const Visit& visit) {
  visit("key", &NodeRequirement::key);
  visit("operator", &NodeRequirement::op);
  visit("values", &NodeRequirement::values);
}

template <typename Visit>
void EachField(const NodeTerm*, const Visit& visit) {
  visit("labels", &NodeTerm::labels);
  visit("fields", &NodeTerm::fields);
}

template <typename Visit>
void EachField(const SnapshotNode*, const Visit& visit) {
  visit("name", &SnapshotNode::name);
  visit("labels", &SnapshotNode::labels);
  visit("taints", &SnapshotNode::taints);
  visit("allocatable", &SnapshotNode::allocatable);
  visit("used", &SnapshotNode::used);
  visit("podsMax", &SnapshotNode::pod_count_max);
  visit("pods", &SnapshotNode::pod_count);
  visit("state", &SnapshotNode::state);
  visit("suspicion", &SnapshotNode::suspicion);
}

template <typename Visit>
void EachField(const QueueSpec*, const Visit& visit) {
  visit("name", &QueueSpec::name);
  visit("parent", &QueueSpec::parent);
  visit("nominal", &QueueSpec::nominal);
  visit("borrowingLimit", &QueueSpec::borrowing_limit);
  visit("lendingLimit", &QueueSpec::lending_limit);
  visit("weight", &QueueSpec::weight);
  visit("ordering", &QueueSpec::ordering);
  visit("preemptsLowerPriority", &QueueSpec::preempts_lower_priority);
  visit("reclaims", &QueueSpec::reclaims);
  visit("minRuntimeSeconds", &QueueSpec::min_runtime);
  visit("namespaces", &QueueSpec::namespaces);
}

template <typename Visit>
void EachField(const PodClass*, const Visit& visit) {
  visit("name", &PodClass::name);
  visit("pods", &PodClass::pods);
  visit("request", &PodClass::request);
  visit("nodeSelector", &PodClass::node_selector);
  visit("tolerations", &PodClass::tolerations);
  visit("nodeAffinity", &PodClass::node_affinity);
}

template <typename Visit>
void EachField(const Gang*, const Visit& visit) {
  visit("classes", &Gang::classes);
}

template <typename Visit>
void EachField(const TopologyTerms*, const Visit& visit) {
  visit("required", &TopologyTerms::required);
  visit("preferred", &TopologyTerms::preferred);
  visit("apart", &TopologyTerms::apart);
}

template <typename Visit>
void EachField(const PastRuns*, const Visit& visit) {
  visit("count", &PastRuns::count);
  visit("shortestSeconds", &PastRuns::shortest);
  visit("longestSeconds", &PastRuns::longest);
}

template <typename Visit>
void EachField(const Asking*, const Visit& visit) {
  visit("stage", &Asking::stage);
  visit("againAt", &Asking::again_at);
}

template <typename Visit>
void EachField(const PodPermission*, const Visit& visit) {
  visit("answer", &PodPermission::answer);
  visit("askedAt", &PodPermission::asked_at);
  visit("until", &PodPermission::until);
  visit("words", &PodPermission::words);
}

template <typename Visit>
void EachField(const GangRequest*, const Visit& visit) {
  visit("name", &GangRequest::name);
  visit("queue", &GangRequest::queue);
  visit("gang", &GangRequest::gang);
  visit("topology", &GangRequest::topology);
  visit("priority", &GangRequest::priority);
  visit("mayPreempt", &GangRequest::may_preempt);
  visit("isPreemptible", &GangRequest::is_preemptible);
  visit("failsToStart", &GangRequest::fails_to_start);
  visit("missingClass", &GangRequest::missing_class);
  visit("since", &GangRequest::since);
  visit("waitsSince", &GangRequest::waits_since);
  visit("standing", &GangRequest::standing);
  visit("runTimeMaxSeconds", &GangRequest::run_time_max);
  visit("stopsAt", &GangRequest::stops_at);
  visit("suspects", &GangRequest::suspects);
  visit("pastRuns", &GangRequest::past_runs);
  visit("asking", &GangRequest::asking);
  visit("permission", &GangRequest::permission);
}

template <typename Visit>
void EachField(const RunTerms*, const Visit& visit) {
  visit("startedAt", &RunTerms::started_at);
  visit("savedAt", &RunTerms::saved_at);
  visit("restarts", &RunTerms::restart_count);
  visit("stopsAt", &RunTerms::stops_at);
}

template <typename Visit>
void EachField(const PlacedPod*, const Visit& visit) {
  visit("pod", &PlacedPod::pod);
  visit("node", &PlacedPod::node);
}

template <typename Visit>
void EachField(const Operation*, const Visit& visit) {
  visit("kind", &Operation::kind);
  visit("gang", &Operation::gang);
  visit("beneficiary", &Operation::beneficiary);
  visit("pods", &Operation::pods);
}

template <typename Visit>
void EachField(const Unschedulable*, const Visit& visit) {
  visit("constraint", &Unschedulable::constraint);
  visit("shortfall", &Unschedulable::shortfall);
  visit("estimatedStart", &Unschedulable::estimated_start);
  visit("notAsked", &Unschedulable::not_asked);
}

template <typename Visit>
void EachField(const RoundOptions*, const Visit& visit) {
  visit("searchStepsMax", &RoundOptions::search_steps_max);
  visit("refreshedMax", &RoundOptions::refreshed_max);
  visit("rewordedMax", &RoundOptions::reworded_max);
  visit("searchesMax", &RoundOptions::searches_max);
  visit("holdBack", &RoundOptions::hold_back);
  visit("asked", &RoundOptions::asked);
}

template <typename Visit>
void EachField(const NodeSeen*, const Visit& visit) {
  visit("node", &NodeSeen::node);
}

template <typename Visit>
void EachField(const NodeGone*, const Visit& visit) {
  visit("node", &NodeGone::node);
}

template <typename Visit>
void EachField(const StrangersSeen*, const Visit& visit) {
  visit("node", &StrangersSeen::node);
  visit("usage", &StrangersSeen::usage);
}

template <typename Visit>
void EachField(const QueuesSeen*, const Visit& visit) {
  visit("specs", &QueuesSeen::specs);
  visit("unserved", &QueuesSeen::unserved);
}

template <typename Visit>
void EachField(const PastUseSeen*, const Visit& visit) {
  visit("past", &PastUseSeen::past);
}

template <typename Visit>
void EachField(const GangSubmitted*, const Visit& visit) {
  visit("request", &GangSubmitted::request);
}

template <typename Visit>
void EachField(const GangRuns*, const Visit& visit) {
  visit("request", &GangRuns::request);
  visit("pods", &GangRuns::pods);
  visit("run", &GangRuns::run);
}

template <typename Visit>
void EachField(const GangHolds*, const Visit& visit) {
  visit("request", &GangHolds::request);
  visit("usage", &GangHolds::usage);
  visit("run", &GangHolds::run);
}

template <typename Visit>
void EachField(const GangPromised*, const Visit& visit) {
  visit("gang", &GangPromised::gang);
  visit("isPromised", &GangPromised::is_promised);
}

template <typename Visit>
void EachField(const GangSaved*, const Visit& visit) {
  visit("gang", &GangSaved::gang);
  visit("savedAt", &GangSaved::saved_at);
}

template <typename Visit>
void EachField(const GangRemoved*, const Visit& visit) {
  visit("gang", &GangRemoved::gang);
}

template <typename Visit>
void EachField(const OperationDone*, const Visit& visit) {
  visit("operation", &OperationDone::operation);
  visit("now", &OperationDone::now);
}

template <typename Visit>
void EachField(const GangTold*, const Visit& visit) {
  visit("gang", &GangTold::gang);
  visit("refusal", &GangTold::refusal);
}

template <typename Visit>
void EachField(const GangAsks*, const Visit& visit) {
  visit("gang", &GangAsks::gang);
  visit("asking", &GangAsks::asking);
}

template <typename Visit>
void EachField(const GangPermitted*, const Visit& visit) {
  visit("gang", &GangPermitted::gang);
  visit("permission", &GangPermitted::permission);
}

// Words of enumerations, in the order of their values.
using Words = std::vector<std::string_view>;

inline Words WordsOf(const NodeState*) {
  return {"Open", "Cordoned", "NotReady"};
}

inline Words WordsOf(const NodeOperator*) {
  return {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
}

inline Words WordsOf(const QueueOrdering*) {
  return {"FIFO", "Priority", "FairShare"};
}

inline Words WordsOf(const Standing*) {
  return {"Ready", "Pausing", "Aside"};
}

inline Words WordsOf(const AskStage*) {
  return {"Never", "Awaited", "Open", "Next", "Failed"};
}

inline Words WordsOf(const PodsAllowed*) {
  return {"Assumed", "Unasked", "Yes", "No"};
}

inline Words WordsOf(const OperationKind*) {
  return {"Start", "Evict", "Claim", "Unclaim"};
}

inline Words WordsOf(const Constraint*) {
  return {"Nodes",
          "NodeSelector",
          "Taint",
          "Gpu",
          "Memory",
          "Cpu",
          "Resource",
          "Pods",
          "Fragmentation",
          "SearchLimit",
          "Queue",
          "Quota",
          "Topology",
          "Preemption",
          "PriorityClass",
          "Namespace",
          "Round"};
}

// Words of StateEvent, in the order of its types.
inline constexpr std::array<std::string_view, std::variant_size_v<StateEvent>> kEventWords = {
    "nodeSeen",
    "nodeGone",
    "strangersSeen",
    "queuesSeen",
    "pastUseSeen",
    "gangSubmitted",
    "gangRuns",
    "gangHolds",
    "gangPromised",
    "gangSaved",
    "gangRemoved",
    "operationDone",
    "gangTold",
    "gangAsks",
    "gangPermitted"};

}  // namespace lockstep::control
