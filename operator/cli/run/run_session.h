#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/process/stop_signals.h"
#include "operator/cli/pods/local_backend.h"
#include "operator/cli/pods/local_poller.h"
#include "operator/cli/run/chaos.h"
#include "operator/cli/run/run_log.h"
#include "operator/cli/run/run_record.h"
#include "operator/cli/run/stop_stage.h"
#include "operator/cli/run_folder/checkpoint_folder.h"
#include "operator/cli/summary/alike_ends.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/terminal/console.h"
#include "operator/controller/controller.h"
#include "operator/local/pod_runner.h"

namespace lockstep::control {

struct RunSessionOptions {
  TrainingJob job;  // with a uid
  kube::Node machine;
  PodSettings settings;
  std::string job_key;
  std::string run_directory;
  std::vector<ChaosAction> chaos;
  std::optional<Duration> timeout;                  // then the job is stopped as failed
  std::string checkpoint_directory;                 // of a training; empty: it writes none
  std::vector<FoundCheckpoint> newest_checkpoints;  // of each model, that lay there before
  std::function<Result<int>()> other_ports;         // as in LocalBackendOptions
  // The run has a state of its own now; called once, at the latest when it succeeds.
  std::function<void()> on_under_way;
};

// What a session works with; all outlive it.
struct RunSessionParts {
  PodRunner* pods;
  HttpClient* client;
  LocalPoller* poller;
  StopSignals* signals;
  Console* console;
  RunLog* logger;
};

// One run from the job's first turn to its last pod: signals, pod changes, reports and time become
// controller steps, one after the other on one thread, which owns all state.
class RunSession {
 public:
  RunSession(RunSessionOptions options, RunSessionParts parts);

  // Runs the job to its end, or until it was stopped and no pod is left.
  RunSummary Run();

 private:
  void HandleSignals(TimePoint now);
  void HandlePods(TimePoint now);
  void TellOfLostFolder();
  void HandleReports();
  void NoteUnderWay();
  void TellRemarks();
  void HandleChaos(TimePoint now);
  void Break(const ChaosAction& action);
  void HandleTimeout(TimePoint now);
  void StepController(TimePoint now);
  void HandleCreationTrouble(TimePoint now);
  void CollectLeftovers(TimePoint now);
  void KillPods(const std::string& reason, TimePoint now);
  void BeginStop(RunOutcome outcome, const std::string& reason, TimePoint now);
  std::string GraceWords() const;
  void Say(const std::string& text);
  void TellRest();
  void Tell(const std::string& text);
  void Warn(const std::string& text);
  void SayEvent(const Event& event);
  void TellEarlyLeavers();
  void ShowProgress(TimePoint now);
  void Wait(TimePoint now);
  bool IsOver() const;
  bool HasLivingPods() const;
  Duration PollInterval() const;
  RunSummary Summarize() const;
  void FillOutcome(RunSummary* summary) const;

  RunSessionOptions options_;
  RunSessionParts parts_;
  TimePoint started_;
  std::size_t gang_size_;
  RunRecord record_;
  ChaosSchedule chaos_;
  LocalBackend backend_;
  Controller controller_;
  StopStage stop_ = StopStage::kNone;
  RunOutcome stop_outcome_ = RunOutcome::kStopped;
  std::string stop_reason_;
  bool is_under_way_ = false;
  std::string last_event_;
  AlikeEnds alike_ends_;
  bool has_told_leavers_ = false;
  bool has_told_lost_folder_ = false;
  std::optional<TimePoint> ended_at_;  // when the job was first seen to have ended
};

}  // namespace lockstep::control
