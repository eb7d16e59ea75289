#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/failure/restart_cause.h"

// What failures cost a job. Local words: an *incident* is what happened once, however many pods it
// took; a *charge* is one failed pod's bill, which an open incident pays or which opens another; it
// is *free* where somebody asked the pod to go. The list of incidents is in the status, and written
// with the decision that answers them.
namespace lockstep::control {

// What falls on one node so long after its first loss belongs to it. Choice: kubelets tell of ends
// within some 3 s, silent ranks are found out within 5, a node that shuts down gives its pods 30.
inline constexpr std::chrono::seconds kIncidentWindow{30};

// An incident is forgotten after so long. Choice: a job that runs for weeks is not failed by what
// happens every few days, and a program that breaks every hour without a checkpoint is.
inline constexpr std::chrono::hours kBudgetWindow{24};

// Free incidents end somewhere, too. Choice: far above what a job on machines that may be taken
// away sees within kBudgetWindow, low enough that a program that always leaves is found out.
inline constexpr int64_t kFreeIncidentsMax = 1000;

// More incidents than this are not listed one by one: the two oldest of a kind become one, with
// both counts and the later time. Choice: ten times the default budget, and 8 KB of status.
inline constexpr std::size_t kIncidentsListedMax = 64;

// What one failed pod costs.
struct Charge {
  std::string cause;
  std::string node;      // where it was; empty: nowhere yet
  WallTime pod_since{};  // when it was decided
  bool is_free = false;  // somebody asked it to go
};

// What a job's charges depend on beside themselves.
struct BudgetTerms {
  std::chrono::milliseconds echo_window{};  // how long a survivor waits for a lost peer
  int64_t checkpoint_step = 0;              // of the newest checkpoint
};

// Whether restarts for this cause are free by themselves: of a process that left after a checkpoint
// on request, as somebody else or its last words say, that is to be started again whenever it
// finishes, whose pod could not even start, or that waited in vain for such a pod.
bool IsFreeCause(std::string_view cause);

// `known` without what is forgotten at `now`: what is older than kBudgetWindow, and what a newer
// checkpoint than there was then has made good, unless it is still open.
std::vector<Incident> Remembered(std::vector<Incident> known,
                                 int64_t checkpoint_step,
                                 WallTime now);

// `known` after `charges`, all of one turn. Those of one node are one incident, and all that are
// free are. An incident of before takes in a pod of its node that was there when it began, within
// kIncidentWindow; a survivor that gave up waiting for its peers, within `echo_window`; and a
// successor of its own that did not come to run. Never a pod that began after it otherwise: what
// breaks again is another incident.
std::vector<Incident> Charged(std::vector<Incident> known,
                              const std::vector<Charge>& charges,
                              const BudgetTerms& terms,
                              WallTime now);

// Incidents that count against backoffLimit, and those that do not.
int64_t CountedIncidents(const std::vector<Incident>& incidents);
int64_t FreeIncidents(const std::vector<Incident>& incidents);

// `restarts` with one more for this cause.
std::vector<RestartCount> WithRestart(std::vector<RestartCount> restarts, std::string_view cause);

// `restarts` with one of those under `from` put under `to`. Precondition: there is one.
std::vector<RestartCount> WithRestartMoved(std::vector<RestartCount> restarts,
                                           std::string_view from,
                                           std::string_view to);

// How many restarts the status has for one cause.
int64_t RestartsFor(std::string_view cause, const FailureStatus& status);

}  // namespace lockstep::control
