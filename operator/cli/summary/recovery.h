#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/status_document.h"
#include "operator/reconcile/failure/first_end.h"

namespace lockstep::control {

// Where the time between a failure and the next step went. The parts follow one another and add up
// to the whole; work that overlaps an earlier part is only counted where it outlasts it.
struct RecoveryParts {
  Duration detect{};       // failure -> noticed here
  Duration spawn{};        // noticed -> the replacement's program began
  Duration engine_load{};  // -> its engine and data are ready
  Duration rendezvous{};   // -> all ranks have met
  Duration state{};        // -> it holds the survivors' state
  Duration step{};         // -> the next step is complete

  friend bool operator==(const RecoveryParts&, const RecoveryParts&) = default;
};

// One lost pod, or process of a pod that lives on, and how the job came through it.
struct Recovery {
  std::string cause;  // in the words of status.restarts
  TaskId culprit;
  // Whose programs ended too close to that one's to tell, with their causes.
  std::vector<std::pair<TaskId, std::string>> other_culprits;
  // All of these were lost, so close together, as they were killed; null: one of them was, or it is
  // known which.
  std::optional<Duration> all_within;
  std::optional<int> lost_rank;  // of a process that was replaced within its pod; null: a pod was
  std::string lost_pod;
  std::string replacement_pod;  // empty until it was started
  // The programs of all pods were started anew within them, and which time of the attempt it was.
  std::optional<int64_t> relaunch;
  TimePoint fault_at;  // the signal where we sent it ourselves, else as early as is known
  TimePoint noticed_at;
  std::optional<TimePoint> back_at;  // of a command: when all its pods and programs ran again
  // The next step, of a model of its own the model's; for commands, when all pods run again, or
  // their ranks have met again.
  std::optional<TimePoint> over_at;
  std::optional<TimePoint> next_step_at;
  std::optional<RecoveryParts> parts;  // once the replacement has reported all of them
};

// Whether a ps is replaced and nobody else: with the built-in trainer nobody stands still for that,
// as they do for a gang that is begun again.
bool IsOfPsAlone(const Recovery& recovery);

// The cause of a process that was replaced within its pod: the pod tells no more.
inline constexpr std::string_view kProcessLost = "process lost";

// Follows losses to the next step, from what the local cluster saw and the runtimes report; all
// times are of one machine's monotonic clock. Pure bookkeeping. Thread: one.
class RecoveryTracker {
 public:
  // `has_steps`: whether the job's processes report steps (the built-in trainer) or not (commands).
  // `gang_size`: pods of the job. `has_own_models`: each trains its own, and a step of another says
  // nothing of who was lost.
  RecoveryTracker(bool has_steps, std::size_t gang_size, bool has_own_models = false)
      : has_steps_(has_steps), has_own_models_(has_own_models), gang_size_(gang_size) {}

  // We are about to break this task ourselves.
  void NoteFault(const TaskId& task, TimePoint at);

  struct Loss {
    TaskId task;
    std::string pod;
    std::string cause;
    TimePoint noticed_at;
    std::optional<TimePoint> fault_at;  // where it is known to have begun earlier
  };

  void PodLost(const Loss& loss);
  void PodStarted(const TaskId& task, const std::string& pod, TimePoint at);

  // A pod has ended well: whoever of the job has not met by now need not meet any more.
  void PodSucceeded();

  // Takes programs that wait to be started anew as a loss now, as when the run is stopped.
  void SettleHeld();

  void Report(const StatusDocument& document);

  // What a pod said of its programs, where those may be started anew within it.
  void NotePrograms(const StatusDocument& document, TimePoint received);

  // Whether a loss still waits for its next step.
  bool is_recovering() const;

  // Recoveries that were completed since the last call.
  std::vector<Recovery> TakeCompleted();

  // All of them, oldest first, completed or not.
  const std::vector<Recovery>& all() const { return recoveries_; }

  // Time in which at least one loss was not made good, until `now`. A ps of the built-in trainer
  // that is replaced alone costs none.
  Duration TimeLost(TimePoint now) const;

 private:
  // A program that has ended and waits to be started anew.
  struct HeldProgram {
    TaskId task;
    ProgramEnd end;
    TimePoint fault_at;  // as of `end`, else when it ended as far as that is known
    TimePoint noticed_at;
  };

  void Complete(Recovery* recovery);
  void NoteHeld(const StatusDocument& document, TimePoint received);
  Recovery TakeHeld();
  void BeginAttempt(Attempt attempt);
  void NoteBack(Recovery* recovery, TimePoint at);
  void NoteMeeting(Recovery* recovery);
  std::optional<TimePoint> NextStepOf(const Recovery& recovery) const;
  std::optional<TimePoint> NextStepOfModel(const Recovery& recovery) const;
  std::optional<TimePoint> NextAfter(TimelineEventKind kind, TimePoint when) const;
  std::optional<RecoveryParts> PartsOf(const Recovery& recovery) const;

  void NoteReplacements(const StatusDocument& document);

  bool IsOfPs(const Recovery& recovery) const;
  std::optional<TimePoint> WholeAt(const Recovery& recovery) const;
  bool IsCommandBack(const Recovery& recovery, const std::string& pod) const;

  bool has_steps_;
  bool has_own_models_;
  bool has_met_ = false;  // ranks have, so they will again
  std::size_t gang_size_;
  std::map<Attempt, std::set<TaskId>> started_;  // of each attempt, what has ever run
  std::map<TaskId, TimePoint> faults_;
  std::map<std::string, StatusDocument> newest_;  // by pod
  Attempt programs_attempt_;                      // that the next three are of
  std::map<std::string, int64_t> relaunches_;     // by pod
  int64_t held_for_ = 0;                          // the relaunch that the next one is for
  std::map<std::string, HeldProgram> held_;       // the losses that it answers, by pod
  std::vector<Recovery> recoveries_;
  std::size_t taken_ = 0;
  std::vector<std::size_t> completed_;  // indexes into recoveries_, in order of completion
};

}  // namespace lockstep::control
