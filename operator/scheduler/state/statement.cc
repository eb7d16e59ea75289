// Operations on the state, and how they are undone.

#include <utility>

#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

bool IsFor(OperationKind kind, GangState state) {
  switch (kind) {
    case OperationKind::kStart:
      return state == GangState::kWaiting || state == GangState::kClaiming;
    case OperationKind::kEvict:
      return state == GangState::kRunning;
    case OperationKind::kClaim:
      return state == GangState::kWaiting;
    case OperationKind::kUnclaim:
      return state == GangState::kClaiming;
  }
  return false;
}

ClusterState::Undo ClusterState::Do(const Operation& operation, WallTime now) {
  GangRecord& gang = At(operation.gang);
  Undo undo{&gang,
            operation,
            gang.state,
            {},
            gang.claimed_pods,
            gang.claimed_at,
            gang.run,
            gang.beneficiary,
            false};
  LOCKSTEP_CHECK(IsFor(operation.kind, gang.state), ToText(operation));
  if (operation.kind == OperationKind::kEvict) {
    Leave(&gang);
    gang.state = GangState::kLeaving;
    gang.beneficiary = operation.beneficiary;
    for (const NodeHold& hold : gang.holds) {
      nodes_.Move(hold.node, Holding::kStaying, Holding::kLeaving, hold.usage);
    }
    Join(&gang);
    return undo;
  }
  Exit(&gang);
  ForgetHolders(gang);
  for (const NodeHold& hold : gang.holds) {  // what was claimed
    nodes_.Release(hold.node, Holding::kClaimed, hold.usage);
  }
  for (const PlacedPod& placed : operation.pods) {
    nodes_.IndexOf(placed.node);  // as noted somewhere, perhaps, by an earlier program
  }
  undo.holds = std::exchange(gang.holds, HoldsOf(gang, operation.pods));
  gang.claimed_pods.clear();
  if (operation.kind == OperationKind::kStart) {
    gang.state = GangState::kRunning;
    gang.is_promised = true;
    gang.run = {
        now, WallTime{}, gang.run.restart_count, EndOf(gang.request, now).value_or(WallTime{})};
  } else if (operation.kind == OperationKind::kClaim) {
    gang.state = GangState::kClaiming;
    gang.claimed_pods = operation.pods;
    gang.claimed_at = now;
  } else {
    gang.state = GangState::kWaiting;
  }
  NoteHolders(gang);
  for (const NodeHold& hold : gang.holds) {
    nodes_.Hold(hold.node,
                gang.state == GangState::kRunning ? Holding::kStaying : Holding::kClaimed,
                hold.usage);
  }
  Enter(&gang);
  return undo;
}

void ClusterState::TakeBack(const Undo& undo) {
  GangRecord& gang = *undo.gang;
  const bool is_eviction = undo.operation.kind == OperationKind::kEvict;
  is_eviction ? Leave(&gang) : Exit(&gang);
  if (is_eviction) {
    for (const NodeHold& hold : gang.holds) {
      nodes_.Move(hold.node, Holding::kLeaving, Holding::kStaying, hold.usage);
    }
  } else {
    ForgetHolders(gang);
    for (const NodeHold& hold : gang.holds) {
      nodes_.Release(hold.node,
                     gang.state == GangState::kRunning ? Holding::kStaying : Holding::kClaimed,
                     hold.usage);
    }
    gang.holds = undo.holds;
    NoteHolders(gang);
    for (const NodeHold& hold : gang.holds) {
      nodes_.Hold(hold.node, Holding::kClaimed, hold.usage);
    }
  }
  gang.state = undo.state;
  gang.is_promised = false;  // nobody goes who is
  gang.claimed_pods = undo.claimed_pods;
  gang.claimed_at = undo.claimed_at;
  gang.run = undo.run;
  gang.beneficiary = undo.beneficiary;
  is_eviction ? Join(&gang) : Enter(&gang);
}

void ClusterState::Vacate(const GangRecord& gang) {
  const Holding how = gang.state == GangState::kLeaving ? Holding::kLeaving : Holding::kStaying;
  for (const NodeHold& hold : gang.holds) {
    nodes_.Release(hold.node, how, hold.usage);
  }
  if (gang.state == GangState::kRunning && gang.queue) {
    queues_.Refund({*gang.queue, gang.space}, gang.total);
  }
}

void ClusterState::Reoccupy(const GangRecord& gang) {
  const Holding how = gang.state == GangState::kLeaving ? Holding::kLeaving : Holding::kStaying;
  for (const NodeHold& hold : gang.holds) {
    nodes_.Hold(hold.node, how, hold.usage);
  }
  if (gang.state == GangState::kRunning && gang.queue) {
    queues_.Charge({*gang.queue, gang.space}, gang.total);
  }
}

void Statement::RollBack(std::size_t checkpoint) {
  while (undos_.size() > checkpoint) {
    if (!undos_.back().is_undone) {
      state_->TakeBack(undos_.back());
    }
    undos_.pop_back();
  }
}

void Statement::TakeBack(std::size_t checkpoint) {
  ClusterState::Undo& undo = undos_[checkpoint];
  LOCKSTEP_CHECK(undo.operation.kind == OperationKind::kEvict && !undo.is_undone,
                 ToText(undo.operation));
  state_->TakeBack(undo);
  undo.is_undone = true;
}

std::vector<Operation> Statement::operations() const {
  std::vector<Operation> operations;
  for (const ClusterState::Undo& undo : undos_) {
    if (!undo.is_undone) {
      operations.push_back(undo.operation);
    }
  }
  return operations;
}

std::string ToText(const Operation& operation) {
  std::string text = operation.kind == OperationKind::kStart   ? "start "
                     : operation.kind == OperationKind::kEvict ? "evict "
                     : operation.kind == OperationKind::kClaim ? "claim "
                                                               : "unclaim ";
  text += operation.gang;
  if (!operation.beneficiary.empty()) {
    text += " for " + operation.beneficiary;
  }
  for (const PlacedPod& placed : operation.pods) {
    text += " " + placed.pod + "@" + placed.node;
  }
  return text;
}

}  // namespace lockstep::control
