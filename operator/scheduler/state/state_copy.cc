#include "operator/scheduler/state/state_copy.h"

#include <utility>

namespace lockstep::control {
namespace {

QueuesSeen QueuesOf(const ClusterState& state) {
  QueuesSeen queues;
  for (QueueIndex queue = kTopQueue + 1; queue < state.queues().size(); ++queue) {
    queues.specs.push_back(state.queues().SpecOf(queue));
  }
  queues.unserved = state.unserved();
  return queues;
}

void AddNodes(const NodeLedger& nodes, std::vector<StateEvent>* events) {
  for (const auto& [name, index] : nodes.by_name()) {
    if (nodes.is_known(index)) {
      SnapshotNode node = nodes.FactsOf(index);
      node.used = nodes.StrangersOn(index).resources;
      node.pod_count = nodes.StrangersOn(index).pod_count;
      events->push_back(NodeSeen{std::move(node)});
    }
  }
}

void AddGang(const ClusterState& state, const GangRecord& gang, std::vector<StateEvent>* events) {
  const std::string& name = gang.request.name;
  if (gang.state == GangState::kWaiting || gang.state == GangState::kClaiming) {
    events->push_back(GangSubmitted{gang.request});
    if (gang.state == GangState::kClaiming) {
      events->push_back(
          OperationDone{{OperationKind::kClaim, name, {}, gang.claimed_pods}, gang.claimed_at});
    }
    return;
  }
  UsageByNode usage;
  for (const auto& [node, held] : SumByNode(gang.holds)) {
    usage[state.nodes().NameOf(node)] = held;
  }
  events->push_back(GangHolds{gang.request, std::move(usage), gang.run});
  if (gang.is_promised) {
    events->push_back(GangPromised{name, true});
  }
  if (gang.state == GangState::kLeaving) {
    events->push_back(
        OperationDone{{OperationKind::kEvict, name, gang.beneficiary}, gang.run.started_at});
  }
}

}  // namespace

std::vector<StateEvent> EventsOf(const ClusterState& state) {
  std::vector<StateEvent> events = {QueuesOf(state), PastUseSeen{state.queues().past_use()}};
  AddNodes(state.nodes(), &events);
  for (const auto& [name, gang] : state.gangs()) {
    AddGang(state, gang, &events);
  }
  return events;
}

std::unique_ptr<ClusterState> CopyOf(const ClusterState& state) {
  auto copy = std::make_unique<ClusterState>(
      ClusterState::Options{state.nodes().domains().levels(), state.nodes().is_one_machine()});
  for (const StateEvent& event : EventsOf(state)) {
    const Status played = Play(event, copy.get());
    LOCKSTEP_CHECK(played.ok(), played.error().ToString());
  }
  return copy;
}

}  // namespace lockstep::control
