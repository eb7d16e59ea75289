#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "operator/resources/node_usage.h"
#include "operator/scheduler/state/cluster_state.h"
#include "operator/scheduler/state/round_result.h"

namespace lockstep::control {

// Each event of a ClusterState as a value, so that it can be kept and done again: a function of the
// same name does it.
struct NodeSeen {
  SnapshotNode node;
};

struct NodeGone {
  std::string node;
};

struct StrangersSeen {
  std::string node;
  NodeUsage usage;
};

struct QueuesSeen {
  std::vector<QueueSpec> specs;
  std::map<std::string, std::string> unserved;
};

struct PastUseSeen {
  PastUseByQueue past;
};

struct GangSubmitted {
  GangRequest request;
};

struct GangRuns {
  GangRequest request;
  PlacedPods pods;
  RunTerms run;
};

struct GangHolds {
  GangRequest request;
  UsageByNode usage;
  RunTerms run;
};

struct GangPromised {
  std::string gang;
  bool is_promised = false;
};

struct GangAsks {
  std::string gang;
  Asking asking;
};

struct GangPermitted {
  std::string gang;
  PodPermission permission;
};

struct GangSaved {
  std::string gang;
  WallTime saved_at;
};

struct GangRemoved {
  std::string gang;
};

struct OperationDone {
  Operation operation;
  WallTime now;
};

struct GangTold {
  std::string gang;
  Unschedulable refusal;
};

using StateEvent = std::variant<NodeSeen,
                                NodeGone,
                                StrangersSeen,
                                QueuesSeen,
                                PastUseSeen,
                                GangSubmitted,
                                GangRuns,
                                GangHolds,
                                GangPromised,
                                GangSaved,
                                GangRemoved,
                                OperationDone,
                                GangTold,
                                GangAsks,
                                GangPermitted>;

// Does it. Errors: kInvalidArgument where the state is not one that the event could come to;
// nothing has changed then.
Status Play(const StateEvent& event, ClusterState* state);

// Hears of all that goes into a state, before it does, and of what rounds of it came to.
class StateRecorder {
 public:
  virtual ~StateRecorder() = default;
  virtual void OnEvent(const StateEvent& event) = 0;
  // Before it is carried out.
  virtual void OnRound(WallTime now, const RoundOptions& options, const RoundResult& result) = 0;
};

}  // namespace lockstep::control
