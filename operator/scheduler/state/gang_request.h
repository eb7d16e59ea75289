#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "operator/scheduler/nodes/node_topology.h"
#include "operator/scheduler/plan/plan.h"
#include "operator/scheduler/state/past_runs.h"

namespace lockstep::control {

// Before the name of a queue, as no queue's name begins: what a gang of rounds holds there, pods
// hold that are to go. It is used in that queue, and on no queue's bill. No name behind it: of a
// job that is gone, and nobody knows where it was.
inline constexpr const char* kOffTheBill = " ";

// How a gang that waits stands in its queue.
enum class Standing {
  kReady,    // it starts as soon as it may
  kPausing,  // it does not start now, and keeps its place: who comes later does not take it
  kAside,    // it starts where it may, and holds up nobody
};

// How far a gang is with asking autoscalers for the room that it lacks. In the order in which
// gangs may ask, where the queue's quota does not hold all of them (ask_turn.h).
enum class AskStage {
  kNever,    // it asks for nothing
  kAwaited,  // nodes for it are on their way, or may be: the place that it will have is kept for it
  kOpen,     // it has asked, and has not been told of any room
  kNext,     // it asks as soon as it may
  kFailed,   // what it asked came to nothing, and it asks again after a pause
};

struct Asking {
  AskStage stage = AskStage::kNever;
  WallTime again_at{};  // of kFailed: when it asks again

  friend bool operator==(const Asking&, const Asking&) = default;
};

// Whether the API server would create a gang's pods.
enum class PodsAllowed {
  kAssumed,  // nobody is asked, as where pods are processes
  kUnasked,  // the server is to be asked before others go for the gang
  kYes,
  kNo,
};

struct PodPermission {
  PodsAllowed answer = PodsAllowed::kAssumed;
  WallTime asked_at{};  // the last time
  WallTime until{};     // of kYes and kNo: from then on the server is to be asked again
  std::string words{};  // of kNo: why

  friend bool operator==(const PodPermission&, const PodPermission&) = default;
};

// A gang that wants to run, with all that decides whose turn it is.
struct GangRequest {
  std::string name;   // "namespace/job"
  std::string queue;  // empty: the default queue
  Gang gang;          // classes and their pods in rank order
  TopologyTerms topology;
  int64_t priority = 0;
  bool may_preempt = true;      // false: it waits, whatever its priority and its queue allow
  bool is_preemptible = true;   // false: it is never evicted
  bool fails_to_start = false;  // again and again where it had room: nobody goes for it
  // Why it cannot be weighed: the priority class that it names is not there; empty: it can.
  std::string missing_class{};
  WallTime since;          // when it came; it keeps its place when it has to wait again
  WallTime waits_since{};  // without places; epoch: since it came
  Standing standing = Standing::kReady;
  std::chrono::seconds run_time_max{0};  // it is stopped so long after its start; 0: it never is
  WallTime stops_at{};                   // of one that has started before: when that is
  // By node: pods come to it only where nodes with less have no room.
  std::map<std::string, int64_t> suspects{};
  PastRuns past_runs{};  // of its kind, by which it is planned and never stopped
  Asking asking{};
  PodPermission permission{};

  friend bool operator==(const GangRequest&, const GangRequest&) = default;
};

// How much of its work a running gang would lose.
struct RunTerms {
  WallTime started_at;
  WallTime saved_at;          // of its last checkpoint; before started_at: it has none of this run
  int64_t restart_count = 0;  // who was disturbed often is disturbed last
  WallTime stops_at{};        // when it is stopped, if it has not ended before; epoch: never

  friend bool operator==(const RunTerms&, const RunTerms&) = default;
};

struct PlacedPod {
  std::string pod;
  std::string node;

  friend bool operator==(const PlacedPod&, const PlacedPod&) = default;
};

// A node for every pod, in rank order: neighbours in the list are neighbours in the network.
using PlacedPods = std::vector<PlacedPod>;

// One thing done to the cluster's state; plain, so that it can be printed, kept and done again.
enum class OperationKind {
  kStart,    // the gang runs where `pods` says; what was claimed for it is no longer
  kEvict,    // the gang was asked to go, so that `beneficiary` may start
  kClaim,    // room is kept for the gang where `pods` says
  kUnclaim,  // and is no longer; the gang waits as before
};

struct Operation {
  OperationKind kind = OperationKind::kStart;
  std::string gang;
  std::string beneficiary{};
  PlacedPods pods{};

  friend bool operator==(const Operation&, const Operation&) = default;
};

}  // namespace lockstep::control
