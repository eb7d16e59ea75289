#include "operator/scheduler/what_if.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "operator/scheduler/round.h"
#include "operator/scheduler/state/state_copy.h"

namespace lockstep::control {
namespace {

Error Missing(const std::string& what) {
  return Error(ErrorCode::kNotFound, what + " does not exist");
}

Error WrongQuestion(const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, what);
}

// The role has so many pods, the first of those that it had or more of them.
void Resize(int64_t count, PodClass* role) {
  auto pods = static_cast<std::size_t>(count);
  role->pods.resize(std::min(role->pods.size(), pods));
  while (role->pods.size() < pods) {
    role->pods.push_back(role->name + "-" + std::to_string(role->pods.size()));
  }
}

Result<GangRequest> Changed(GangRequest request, const WhatIfChange& change) {
  for (const auto& [name, count] : change.replicas) {
    std::vector<PodClass>& classes = request.gang.classes;
    const auto role = std::find_if(
        classes.begin(), classes.end(), [&](const PodClass& one) { return one.name == name; });
    if (role == classes.end()) {
      return Missing("role " + name + " of " + request.name);
    }
    if (count < 1 || count > kReplicasMax) {
      return WrongQuestion("role " + name + ": " + std::to_string(count) +
                           " pods found, expected 1 to " + std::to_string(kReplicasMax));
    }
    Resize(count, &*role);
    request.past_runs = {};  // those were of another size
  }
  request.queue = change.queue.value_or(request.queue);
  request.priority = change.priority.value_or(request.priority);
  return request;
}

// Whoever holds room of the node has no places any more.
void Drain(const std::string& name, ClusterState* state, std::set<std::string>* displaced) {
  const NodeIndex index = *state->nodes().Find(name);
  std::vector<GangRequest> gangs;
  for (const auto& [gang, record] : state->gangs()) {
    if (std::any_of(record.holds.begin(), record.holds.end(), [&](const NodeHold& hold) {
          return hold.node == index;
        })) {
      gangs.push_back(record.request);
    }
  }
  for (const GangRequest& gang : gangs) {
    displaced->insert(gang.name);
    state->Remove(gang.name);
    if (!gang.gang.classes.empty()) {
      state->Submit(gang);
    }
  }
  SnapshotNode node = state->nodes().FactsOf(index);
  node.state = NodeState::kCordoned;
  state->SetNode(node);
}

Status ChangeNodes(const WhatIfChange& change,
                   ClusterState* state,
                   std::set<std::string>* displaced) {
  for (const std::string& name : change.drained) {
    const auto index = state->nodes().Find(name);
    if (!index || !state->nodes().is_known(*index)) {
      return Missing("node " + name);
    }
    Drain(name, state, displaced);
  }
  for (const SnapshotNode& node : change.further_nodes) {
    const auto index = state->nodes().Find(node.name);
    if (index && state->nodes().is_known(*index)) {
      return WrongQuestion("node " + node.name + " already exists");
    }
    state->SetNode(node);
  }
  return OkStatus();
}

WhatIfAnswer AnswerOf(const RoundResult& round, const std::string& gang, WallTime now) {
  WhatIfAnswer answer;
  for (const Operation& operation : round.log) {
    const bool is_last = operation.gang == gang && (operation.kind == OperationKind::kStart ||
                                                    operation.kind == OperationKind::kClaim);
    answer.pods = is_last ? operation.pods : answer.pods;
    answer.at = is_last && operation.kind == OperationKind::kStart ? std::optional(now) : answer.at;
  }
  for (const Eviction& eviction : round.evictions) {
    if (eviction.beneficiary == gang) {
      answer.evicted.push_back(eviction.gang);
    }
  }
  for (const Refusal& refusal : round.refusals) {
    if (refusal.gang == gang) {
      answer.missing = refusal.why;
      answer.at = refusal.why.estimated_start;
    }
  }
  for (const LinePosition& position : round.line) {
    if (position.gang == gang) {
      answer.position = position.position;
    }
  }
  return answer;
}

}  // namespace

Result<WhatIfAnswer> WhatIf(const ClusterState& state, const WhatIfChange& change, WallTime now) {
  const GangRecord* const known = state.Find(change.gang);
  if (known == nullptr) {
    return Missing("gang " + change.gang);
  }
  if (known->state != GangState::kWaiting && known->state != GangState::kClaiming) {
    return WrongQuestion("gang " + change.gang +
                         " is placed already; --what-if works for waiting jobs only");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const GangRequest request, Changed(known->request, change));
  const std::unique_ptr<ClusterState> scratch = CopyOf(state);
  std::set<std::string> displaced;
  if (request != known->request) {
    scratch->Submit(request);
  }
  LOCKSTEP_RETURN_IF_ERROR(ChangeNodes(change, scratch.get(), &displaced));
  RoundMemory memory;
  RoundOptions options;
  options.searches_max = std::numeric_limits<std::size_t>::max();
  options.asked = change.gang;
  WhatIfAnswer answer = AnswerOf(Round(scratch.get(), now, &memory, options), change.gang, now);
  if (answer.pods.empty() && known->state == GangState::kClaiming && !answer.missing) {
    answer.pods = scratch->Find(change.gang)->claimed_pods;
  }
  answer.displaced.assign(displaced.begin(), displaced.end());
  return answer;
}

}  // namespace lockstep::control
