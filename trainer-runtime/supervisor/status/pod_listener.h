#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/termination_message.h"
#include "common/process/silence.h"
#include "common/process/thread_watch.h"
#include "trainer-runtime/supervisor/status/pod_report.h"
#include "trainer-runtime/supervisor/status/step_file.h"
#include "trainer-runtime/supervisor/status/trainer_status.h"
#include "trainer-runtime/telemetry/process_channel.h"
#include "trainer-runtime/telemetry/status_board.h"
#include "trainer-runtime/telemetry/step_pace.h"

namespace lockstep::runtime {

// What a pod ends with whose program ended with a code that says something else than is so:
// permanent, as another try would end the same way. Choice: that of a Python exception that nobody
// catches.
inline constexpr int kExitUnfinished = 1;

// Hears what the processes of a pod say, over their channels, and shows the whole on the pod's
// status board: so a pod has one status server, however many processes it has. A process that has
// spoken and falls silent is killed, by the rule of common/process/silence.h: nobody outside sees
// it behind a server that answers. Thread: any. Listens on its own.
class PodListener {
 public:
  // `silent_after` without a word: a process is suspected. `logger` outlives it.
  // `has_own_models`: each process trains a model of its own.
  PodListener(int process_count,
              Duration silent_after,
              Logger* logger,
              bool has_own_models = false);

  // Begins to listen. `board`, which holds who the pod is, is written to until StopShowing, or the
  // end of this object.
  void ShowOn(StatusBoard* board);

  // Shows all that was heard, and listens no more.
  void StopShowing();

  // A new channel to the process that is about to stand for `local_rank`; returns its end.
  // Errors: as MakeChannel.
  Result<UniqueFd> Connect(int local_rank);

  void NoteStarted(int local_rank, pid_t pid);

  // Hears the rest of what the process said.
  void NoteEnded(int local_rank);

  // All processes are about to be started anew: none of them is a successor of one that was lost.
  void ForgetLosses();

  // A process says how far it is, by what others than us have agreed on: that counts where none
  // says so over its channel.
  void TakeTrainerStatus(const TrainerStatus& status);

  // Reads from now on the steps that the program's optimizers take. They count as progress, and are
  // shown where nobody says otherwise: neither a session nor a trainer's status.
  void ReadSteps(StepFile file);

  // The metrics of trainers' statuses, as a page; empty where there were none.
  std::string ToldPage() const;

  // Passes a message of the operator on to all processes.
  void Tell(ControlMessage message);

  // Whether the process that stood last for `local_rank` has met its peers by what the runtime
  // offers, and is not done: then they meet a successor, too.
  bool IsMissed(int local_rank) const;

  // Whether process `pid` for `local_rank`, which may have ended, has said that all work is done.
  bool IsDone(int local_rank, pid_t pid);

  // Why an end of the process for `local_rank` with that exit code is not what the code says, by
  // what the process has said itself; empty: it is. 0 is no success where ranks called different
  // things, or it has met its peers for more steps than it took, and has not said that all work is
  // done. Only a session knows of a newer process that 76 stands for.
  std::string Objection(int local_rank, int exit_code);

  // The process for `local_rank` that has a session now, as it says itself; 0: none.
  pid_t SessionOf(int local_rank) const;

  // How often the processes that stood for `local_rank` have told of another step, epoch or phase.
  // A trainer's status, which the first rank tells for all, counts for each. So does each step of
  // the process's own optimizers.
  int64_t CountReports(int local_rank) const;

  // Whether a step is known to have been taken, whichever it was.
  bool HasStepped() const;

  // The newest step that any process of the pod has completed, or that a trainer's status has told,
  // or the program's optimizers have taken.
  Step newest_step() const;

  // The newest document of who has completed the newest step, ended or not; else what a trainer's
  // status has told, and the steps of the program's optimizers; null while nobody has told of any.
  std::optional<StatusDocument> Furthest() const;

  // Those of all processes as one; empty when none was told.
  std::string MetricsPage() const;

  // What the process that stood last for `local_rank` said at its end, with the checkpoints of all
  // that stood for it; empty when it said nothing.
  std::optional<TerminationMessage> LastWordsOf(int local_rank) const;

 private:
  struct Process {
    UniqueFd channel;
    pid_t pid = 0;
    UniqueFd pid_fd;  // empty where the kernel has none
    std::optional<TimePoint> heard_at;
    TimePoint next_look;
    std::optional<TimePoint> hangs_since;
    std::string metrics;
    bool is_missed = false;
    // Of a session that has met its peers, or could not, as they differ. Another program of the
    // same process, such as one that only reports, says nothing about its work.
    std::optional<StatusDocument> newest_met;
    int64_t report_count = 0;
    std::optional<TerminationMessage> last_words;
  };

  // Whether a process has told its steps itself, even if it is lost: the trainer's are older then.
  // Holds mutex_.
  bool SessionCountsSteps() const;
  // The newest step that optimizers are known to have taken. Holds mutex_.
  std::optional<Step> OptimizerStep() const;
  // Shows how far the program is where no session says so. Returns whether that is known. Holds
  // mutex_.
  bool ShowToldSteps(StatusDocument* document) const;
  void Listen(const std::stop_token& stop);
  void HearAll();
  void Hear(std::size_t local_rank);
  void Take(std::size_t local_rank, const ChannelMessage& message);
  void KillSilent(TimePoint now);

  const SilenceLimits limits_;
  Logger* const logger_;
  const bool has_own_models_;
  mutable std::mutex mutex_;
  ThreadWatch watch_;                   // guarded by mutex_
  std::vector<Process> processes_;      // by local rank; with the rest, guarded by mutex_
  std::vector<ProcessReport> reports_;  // by local rank
  std::optional<StatusDocument> furthest_;
  std::optional<TrainerStatus> trainer_;
  TrainerProgress trainer_progress_;  // by `trainer_` and those before it
  int64_t trainer_report_count_ = 0;
  std::optional<StepFile> step_file_;
  std::vector<OptimizerSteps> optimizers_;  // by local rank, as read last
  StepPace pace_;
  StatusBoard* board_ = nullptr;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace lockstep::runtime
