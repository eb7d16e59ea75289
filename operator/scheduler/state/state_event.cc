#include "operator/scheduler/state/state_event.h"

#include <utility>

namespace lockstep::control {
namespace {

Error Unfit(const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, what);
}

struct Player {
  ClusterState* state;

  Status operator()(const NodeSeen& event) const {
    state->SetNode(event.node);
    return OkStatus();
  }

  Status operator()(const NodeGone& event) const {
    state->RemoveNode(event.node);
    return OkStatus();
  }

  Status operator()(const StrangersSeen& event) const {
    state->SetStrangers(event.node, event.usage);
    return OkStatus();
  }

  Status operator()(const QueuesSeen& event) const {
    return state->SetQueues(event.specs, event.unserved);
  }

  Status operator()(const PastUseSeen& event) const {
    state->SetPastUse(event.past);
    return OkStatus();
  }

  Status operator()(const GangSubmitted& event) const {
    state->Submit(event.request);
    return OkStatus();
  }

  Status operator()(const GangRuns& event) const {
    state->SetRunning(event.request, event.pods, event.run);
    return OkStatus();
  }

  Status operator()(const GangHolds& event) const {
    state->SetHolding(event.request, event.usage, event.run);
    return OkStatus();
  }

  Status operator()(const GangPromised& event) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireKnown(event.gang));
    state->SetPromised(event.gang, event.is_promised);
    return OkStatus();
  }

  Status operator()(const GangAsks& event) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireKnown(event.gang));
    state->SetAsking(event.gang, event.asking);
    return OkStatus();
  }

  Status operator()(const GangPermitted& event) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireKnown(event.gang));
    state->SetPermission(event.gang, event.permission);
    return OkStatus();
  }

  Status operator()(const GangSaved& event) const {
    state->SetSaved(event.gang, event.saved_at);
    return OkStatus();
  }

  Status operator()(const GangRemoved& event) const {
    state->Remove(event.gang);
    return OkStatus();
  }

  Status operator()(const OperationDone& event) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireKnown(event.operation.gang));
    if (!IsFor(event.operation.kind, state->Find(event.operation.gang)->state)) {
      return Unfit("\"" + ToText(event.operation) + "\" does not fit the state of its gang");
    }
    state->Apply(event.operation, event.now);
    return OkStatus();
  }

  Status operator()(const GangTold& event) const {
    LOCKSTEP_RETURN_IF_ERROR(RequireKnown(event.gang));
    state->Tell(event.gang, event.refusal);
    return OkStatus();
  }

  Status RequireKnown(const std::string& gang) const {
    return state->Find(gang) != nullptr ? OkStatus()
                                        : Status(Unfit("gang " + gang + " is unknown"));
  }
};

}  // namespace

Status Play(const StateEvent& event, ClusterState* state) {
  return std::visit(Player{state}, event);
}

}  // namespace lockstep::control
