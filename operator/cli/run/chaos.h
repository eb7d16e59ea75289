#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/status_document.h"

namespace lockstep::control {

// Failures on order: what `lockstep run --chaos` does to a run, and when.
//
//   kill=worker-1@step=60           SIGKILL to the pod's processes
//   stop=worker-1@time=2.5s         SIGSTOP: alive, holding its connections, saying nothing
//   exit=3:worker-1@step=60         the pod's program ends with that exit code
//   kill=worker-0+worker-2@step=60  both in the same moment
//   kill=chief-0@phase=rendezvous   as soon as the pod itself is in that phase

enum class ChaosKind { kKill, kStop, kExit };

struct ChaosAtStep {
  int64_t step = 0;  // fires when the job has completed it

  friend bool operator==(const ChaosAtStep&, const ChaosAtStep&) = default;
};

struct ChaosAtTime {
  Duration after{};  // since all pods of the gang ran for the first time

  friend bool operator==(const ChaosAtTime&, const ChaosAtTime&) = default;
};

struct ChaosAtPhase {
  Phase phase = Phase::kTraining;  // of the first target

  friend bool operator==(const ChaosAtPhase&, const ChaosAtPhase&) = default;
};

struct ChaosAction {
  ChaosKind kind = ChaosKind::kKill;
  int exit_code = 0;            // kExit only
  std::vector<TaskId> targets;  // at least one
  std::variant<ChaosAtStep, ChaosAtTime, ChaosAtPhase> trigger;
  std::string text;  // as it was given

  friend bool operator==(const ChaosAction&, const ChaosAction&) = default;
};

// Actions separated by commas. Errors: kInvalidArgument, saying which part is wrong and what was
// expected there.
Result<std::vector<ChaosAction>> ParseChaos(std::string_view text);

// Whether every target is a pod of the job. Errors: kInvalidArgument, listing the job's pods.
Status CheckChaosTargets(const std::vector<ChaosAction>& actions, const std::set<TaskId>& tasks);

// Whether every action can become due. Errors: kInvalidArgument (a job without steps never comes to
// one).
Status CheckChaosTriggers(const std::vector<ChaosAction>& actions, bool has_steps);

// What decides whether an action is due.
struct ChaosView {
  int64_t step = -1;               // highest completed step that was reported; -1: none yet
  Duration running{-1};            // since all pods ran; negative: not yet
  std::map<TaskId, Phase> phases;  // newest report of each pod
  std::set<TaskId> running_tasks;  // whose current pod has a process
};

// Hands out each action once. An action waits until all its targets run. Thread: one.
class ChaosSchedule {
 public:
  explicit ChaosSchedule(std::vector<ChaosAction> actions) : pending_(std::move(actions)) {}

  bool empty() const { return pending_.empty(); }

  // Those that have not been due yet.
  const std::vector<ChaosAction>& pending() const { return pending_; }

  // Removes and returns the actions that are due.
  std::vector<ChaosAction> TakeDue(const ChaosView& view);

 private:
  std::vector<ChaosAction> pending_;
};

}  // namespace lockstep::control
