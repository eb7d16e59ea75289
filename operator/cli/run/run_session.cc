#include "operator/cli/run/run_session.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <utility>

#include "common/base/printable.h"
#include "common/contract/status/exit_code.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/status/conditions.h"
#include "operator/cli/pods/pod_ports.h"
#include "operator/cli/run_folder/checkpoint_folder.h"
#include "operator/cli/terminal/duration.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {
namespace {

// Choices: a report every 100 ms costs each process well under 1 % of a core; while something is
// about to happen or being repaired, moments are told apart by 20 ms.
constexpr Duration kPollCalm = std::chrono::milliseconds(100);
constexpr Duration kPollAlert = std::chrono::milliseconds(20);

// Pods that the job's clean-up policy leaves running get this long to end by themselves.
constexpr Duration kLeftoverPatience = std::chrono::seconds(5);

constexpr Duration kWaitMax = std::chrono::seconds(1);
constexpr int kControllerStepsMax = 16;  // then pods and signals are looked at again

std::size_t GangSize(const TrainingJob& job) {
  std::size_t size = 0;
  for (const RoleSpec& role : job.spec.roles) {
    size += static_cast<std::size_t>(role.replicas);
  }
  return size;
}

// The state is on the ps, and no worker takes it between two gates.
bool SavesAtStop(const TrainingJob& job) {
  return !job.spec.training || job.spec.strategy != Strategy::kParameterServer;
}

ModelsOfPods ModelsOf(const TrainingJob& job) {
  ModelsOfPods models;
  if (job.spec.strategy == Strategy::kIndependent && job.spec.training) {
    const std::vector<RankPlace> order = RankOrder(TopologyOf(job, LoopbackAddressing{}));
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      models[order[rank].task].push_back(static_cast<int64_t>(rank));
    }
  }
  return models;
}

// Samples a step, of all models together where there are several; nothing for commands.
std::optional<int64_t> BatchSize(const TrainingJob& job) {
  if (!job.spec.training) {
    return std::nullopt;
  }
  return job.spec.training->global_batch_size * ModelCount(ModelsOf(job));
}

// Data epochs of the whole training, where the manifest counts in them.
std::optional<int64_t> DataEpochsOf(const TrainingJob& job) {
  const bool has_epochs =
      job.spec.training && job.spec.training->length.unit == LengthUnit::kEpochs;
  return has_epochs ? std::optional(job.spec.training->length.count) : std::nullopt;
}

bool HasRuntime(const TrainingJob& job, const kube::Pod& pod) {
  const auto name = ParsePodName(pod.name);
  const RoleSpec* const role = name ? job.FindRole(name->task.role) : nullptr;
  return role != nullptr && IsSupervised(job, *role);
}

const char* VerbOf(ChaosKind kind) {
  switch (kind) {
    case ChaosKind::kKill:
      return "kill";
    case ChaosKind::kStop:
      return "stop";
    case ChaosKind::kExit:
      return "exit";
  }
  return "kill";
}

std::string TimeStamp(Duration elapsed) {
  char when[32];
  std::snprintf(when, sizeof when, "%7.2f s  ", ToSeconds(elapsed));
  return when;
}

}  // namespace

RunSession::RunSession(RunSessionOptions options, RunSessionParts parts)
    : options_(std::move(options)),
      parts_(parts),
      started_(SteadyNow()),
      gang_size_(GangSize(options_.job)),
      record_({BatchSize(options_.job),
               gang_size_,
               started_,
               options_.run_directory,
               options_.newest_checkpoints,
               ModelsOf(options_.job)}),
      chaos_(options_.chaos),
      backend_(LocalBackendOptions{options_.job,
                                   options_.machine,
                                   options_.settings,
                                   options_.job_key,
                                   [this](const Event& event) { SayEvent(event); },
                                   options_.other_ports,
                                   [this](const kube::Pod& pod, const std::string& cause) {
                                     record_.OnGivenUp(pod, cause, SteadyNow());
                                   }},
               parts.pods,
               parts.client,
               parts.logger),
      controller_(&backend_, parts.logger, Calendar(started_, SystemClock().WallNow())) {}

RunSummary RunSession::Run() {
  controller_.Notify(backend_.key(), SteadyNow());
  while (true) {
    const TimePoint now = SteadyNow();
    HandleSignals(now);
    HandlePods(now);
    HandleReports();
    NoteUnderWay();
    HandleChaos(now);
    HandleTimeout(now);
    StepController(now);
    CollectLeftovers(now);
    if (IsOver()) {
      HandlePods(SteadyNow());
      TellRemarks();
      NoteUnderWay();
      parts_.console->Clear();
      TellRest();
      return Summarize();
    }
    ShowProgress(now);
    Wait(now);
  }
}

void RunSession::HandleSignals(TimePoint now) {
  for (const int signal : parts_.signals->Take()) {
    const StopStage stage = AfterSignal(stop_, signal);
    if (stop_ == StopStage::kNone) {
      BeginStop(RunOutcome::kStopped, "stopped by " + SignalName(signal), now);
      const bool saves = options_.job.spec.training && SavesAtStop(options_.job);
      Say((saves ? "stopping after a checkpoint" : "stopping") + GraceWords() +
          "; a second signal kills the pods");
    } else if (stage != stop_) {
      KillPods("killed by " + SignalName(signal), now);
    }
  }
}

void RunSession::KillPods(const std::string& reason, TimePoint now) {
  stop_ = StopStage::kKill;
  stop_reason_ = reason;
  for (const kube::Pod& pod : parts_.pods->pods()) {
    [[maybe_unused]] const Status gone = parts_.pods->DeletePod(pod.name, Duration::zero(), now);
  }
}

// ", killed after 30 s": when waiting ends for whoever does not end by itself.
std::string RunSession::GraceWords() const {
  std::chrono::seconds longest{0};
  for (const kube::Pod& pod : parts_.pods->pods()) {
    if (pod.status.phase == kube::PodPhase::kRunning) {
      longest = std::max(longest, pod.spec.termination_grace);
    }
  }
  return longest.count() > 0 ? ", at most " + std::to_string(longest.count()) + " s" : "";
}

// The controller is not asked any more: it would replace the pods that go.
void RunSession::BeginStop(RunOutcome outcome, const std::string& reason, TimePoint now) {
  stop_ = StopStage::kGraceful;
  stop_outcome_ = outcome;
  stop_reason_ = reason;
  record_.OnStop(IsTrue(backend_.job().status, ConditionType::kRestarting), now);
  const std::set<std::string> mute = parts_.poller->MutePods();  // will not hear SIGTERM either
  for (const kube::Pod& pod : parts_.pods->pods()) {
    const Duration grace = mute.contains(pod.name) ? Duration::zero() : pod.spec.termination_grace;
    [[maybe_unused]] const Status asked = parts_.pods->DeletePod(pod.name, grace, now);
  }
}

// A folder that is moved takes along what its pods open by name: each would be told of alone.
void RunSession::TellOfLostFolder() {
  std::error_code error;
  if (!has_told_lost_folder_ && !std::filesystem::exists(options_.run_directory + "/lock", error) &&
      !error) {
    has_told_lost_folder_ = true;
    Warn("the run directory " + options_.run_directory + " was moved or removed during the run");
  }
}

void RunSession::HandlePods(TimePoint now) {
  TellOfLostFolder();
  parts_.pods->Process(now);
  for (const PodEvent& event : parts_.pods->TakeEvents()) {
    record_.OnPodEvent(event);
    controller_.Notify(backend_.key(), SteadyNow());
    if (event.change == PodChange::kOutputLost) {
      Warn("output of " + event.pod.name + " is being lost: " + event.lost_output.error);
    }
    const auto& termination = event.pod.status.termination;
    if (event.change == PodChange::kEnded && HasFoundItsPortTaken(event.pod)) {
      backend_.NotePortTaken(event.pod);
    }
    if (event.change == PodChange::kEnded && termination && termination->exit_code != 0 &&
        !event.pod.is_deleting) {
      TellEarlyLeavers();
      const std::string how =
          DescribeExit(termination->exit_code, termination->signal, termination->reason);
      for (const std::string& line : alike_ends_.Add(event.pod.name, how)) {
        Tell(line);
      }
    }
  }
}

// The first failure of a command may be that it misses those who have ended well: without a word
// here whoever fails looks like the cause.
void RunSession::TellEarlyLeavers() {
  if (options_.job.spec.training || has_told_leavers_) {
    return;
  }
  has_told_leavers_ = true;
  for (const std::string& pod : record_.Succeeded()) {
    Say(pod + " had already ended with exit code 0");
  }
}

void RunSession::HandleReports() {
  for (const StatusArrival& arrival : parts_.poller->TakeArrivals()) {
    backend_.Accept(arrival);
    record_.OnReport(arrival);
    controller_.Notify(backend_.key(), SteadyNow());
  }
  if (backend_.SetMutePods(parts_.poller->MutePods())) {
    controller_.Notify(backend_.key(), SteadyNow());
  }
  TellRemarks();
}

// A command is under way when it runs; a training may still be refused by its checkpoints.
void RunSession::NoteUnderWay() {
  const bool is_now = !options_.job.spec.training || record_.is_under_way() ||
                      IsTrue(backend_.job().status, ConditionType::kSucceeded);
  if (is_now && !std::exchange(is_under_way_, true)) {
    options_.on_under_way();
  }
}

void RunSession::TellRemarks() {
  for (const CheckpointRemark& remark : record_.TakeRemarks()) {
    remark.is_warning ? Warn(remark.text) : Say(remark.text);
  }
  const bool has_models = options_.job.spec.strategy == Strategy::kIndependent;
  for (const DataEpochResult& result : record_.history().TakeNew()) {
    Say((has_models ? "model 0: " : "") + FormatDataEpoch(result, DataEpochsOf(options_.job)));
  }
  for (const Recovery& recovery : record_.recoveries().TakeCompleted()) {
    Say(FormatRecovery(recovery));
  }
}

void RunSession::HandleChaos(TimePoint now) {
  const ChaosView view = record_.ViewForChaos(gang_size_, now);
  if (chaos_.empty() || stop_ != StopStage::kNone) {
    return;
  }
  for (const ChaosAction& action : chaos_.TakeDue(view)) {
    Break(action);
  }
}

void RunSession::Break(const ChaosAction& action) {
  for (const TaskId& target : action.targets) {
    const std::string pod = record_.RunningPodOf(target);
    record_.recoveries().NoteFault(target, SteadyNow());
    Status done;
    switch (action.kind) {
      case ChaosKind::kKill:
        done = parts_.pods->SignalPod(pod, SIGKILL);
        break;
      case ChaosKind::kStop:
        done = parts_.pods->SignalPod(pod, SIGSTOP);
        break;
      case ChaosKind::kExit:
        done = parts_.pods->ForceExit(pod, action.exit_code);
        break;
    }
    if (!done.ok()) {
      parts_.logger->Warn("injecting a failure did not work",
                          {{"action", action.text}, {"error", done.error().ToString()}});
    }
  }
  for (const TaskId& target : action.targets) {
    Say(std::string("chaos: ") + VerbOf(action.kind) + " " + TaskName(target));
  }
}

void RunSession::HandleTimeout(TimePoint now) {
  if (options_.timeout && stop_ == StopStage::kNone && !ended_at_ &&
      now - started_ >= *options_.timeout) {
    const std::string reason = "not finished within " + FormatExactDuration(*options_.timeout);
    Say(reason);
    BeginStop(RunOutcome::kFailed, reason, now);
  }
}

void RunSession::StepController(TimePoint now) {
  if (stop_ != StopStage::kNone) {
    return;
  }
  if (backend_.PauseEnd().value_or(now) <= now) {
    for (int step = 0; step < kControllerStepsMax && !controller_.Step(now).empty(); ++step) {
    }
    HandleCreationTrouble(now);
  }
  std::map<std::string, LocalTarget> targets;
  for (const kube::Pod& pod : parts_.pods->pods()) {
    if (pod.status.phase == kube::PodPhase::kRunning && !pod.status.pod_ip.empty()) {
      targets[pod.name] = {pod.status.pod_ip, StatusPortOf(pod), HasRuntime(options_.job, pod)};
      targets[pod.name].leader = static_cast<pid_t>(pod.status.pid);
    }
  }
  parts_.poller->SetTargets(std::move(targets), PollInterval(), now);
  parts_.poller->Process(now);
}

// Every report asks the controller for a decision, and each would try to make the pods again: it
// rests until their pause is over.
void RunSession::HandleCreationTrouble(TimePoint now) {
  if (const auto warning = backend_.TakeWarning()) {
    Warn(*warning);
  }
  if (const auto verdict = backend_.Verdict(); verdict && !ended_at_) {
    Say(*verdict);
    BeginStop(RunOutcome::kFailed, *verdict, now);
  }
}

void RunSession::CollectLeftovers(TimePoint now) {
  if (!HasEnded(backend_.job().status)) {
    return;
  }
  record_.checkpoints().NoteEnd();
  ended_at_ = ended_at_.value_or(now);
  if (now - *ended_at_ < kLeftoverPatience) {
    return;
  }
  for (const kube::Pod& pod : parts_.pods->pods()) {
    if (pod.status.phase == kube::PodPhase::kRunning && !pod.is_deleting) {
      [[maybe_unused]] const Status asked =
          parts_.pods->DeletePod(pod.name, pod.spec.termination_grace, now);
    }
  }
}

bool RunSession::HasLivingPods() const {
  return std::ranges::any_of(parts_.pods->pods(), [](const kube::Pod& pod) {
    return pod.status.phase == kube::PodPhase::kRunning;
  });
}

bool RunSession::IsOver() const {
  return (stop_ != StopStage::kNone || ended_at_) && !HasLivingPods();
}

Duration RunSession::PollInterval() const {
  return !chaos_.empty() || record_.is_recovering() ? kPollAlert : kPollCalm;
}

void RunSession::Wait(TimePoint now) {
  TimePoint wake = now + kWaitMax;
  const auto consider = [&wake](const std::optional<TimePoint>& when) {
    wake = when ? std::min(wake, *when) : wake;
  };
  consider(parts_.pods->NextDeadline(now));
  if (stop_ == StopStage::kNone) {
    consider(parts_.poller->NextDeadline());
    const TimePoint rest = backend_.PauseEnd().value_or(TimePoint::min());
    const auto next_step = controller_.NextStep();
    consider(next_step ? std::optional(std::max(*next_step, rest)) : std::nullopt);
    if (options_.timeout) {
      consider(started_ + *options_.timeout);
    }
  }
  std::array<pollfd, 3> entries{pollfd{parts_.signals->fd(), POLLIN, 0},
                                pollfd{parts_.pods->fd(), POLLIN, 0},
                                pollfd{parts_.poller->fd(), POLLIN, 0}};
  ::poll(entries.data(), entries.size(), Deadline::At(wake).RemainingMilliseconds(SteadyNow()));
}

void RunSession::Say(const std::string& text) {
  TellRest();
  Tell(text);
}

// Before anything else is said: how many ended as the pod did that was named last.
void RunSession::TellRest() {
  for (const std::string& line : alike_ends_.Rest()) {
    Tell(line);
  }
}

void RunSession::Tell(const std::string& text) {
  parts_.console->Tell(TimeStamp(SteadyNow() - started_) + Printable(text));
}

// What a quiet run tells, too.
void RunSession::Warn(const std::string& text) {
  parts_.logger->Note("warned", {{"text", text}});
  TellRest();
  parts_.console->Print(TimeStamp(SteadyNow() - started_) + "warning: " + Printable(text));
}

// One decision may say the same for several conditions; once is enough for people.
void RunSession::SayEvent(const Event& event) {
  parts_.logger->Note(event.message, {{"reason", event.reason}});
  if (!last_event_.starts_with(event.message)) {
    Say(event.reason + ": " + event.message);
  }
  last_event_ = event.message;
}

void RunSession::ShowProgress(TimePoint now) {
  Progress progress;
  progress.job = options_.job.metadata.name;
  progress.is_training = options_.job.spec.training.has_value();
  progress.pods_total = static_cast<int64_t>(gang_size_);
  progress.elapsed = now - started_;
  progress.state = stop_ == StopStage::kNone ? StateWord(backend_.job().status) : "Stopping";
  record_.FillProgress(&progress);
  if (progress.pods_running == 0 && now - started_ < kPollCalm) {
    return;  // "0/2 running" before the line that says they run
  }
  parts_.console->Show(progress, now);
}

RunSummary RunSession::Summarize() const {
  RunSummary summary;
  summary.job = options_.job.metadata.name;
  record_.FillSummary(SteadyNow(), &summary);
  summary.data_epochs_total = DataEpochsOf(options_.job);
  summary.saves_at_stop = SavesAtStop(options_.job);
  summary.checkpoint_directory = options_.checkpoint_directory;
  if (!options_.checkpoint_directory.empty()) {
    // What lies there, and not what pods told: on a full disk their last words are lost as well.
    auto found = NewestCheckpointsIn(options_.checkpoint_directory);
    if (found.ok()) {
      summary.newest_checkpoints = std::move(found).value();
      summary.last_checkpoint_step = HighestOf(summary.newest_checkpoints);
    } else {
      summary.checkpoints.last_error = found.error().ToString();
      summary.checkpoints.is_unreadable = true;
    }
  }
  FillOutcome(&summary);
  for (const ChaosAction& action : chaos_.pending()) {
    summary.chaos_not_fired.push_back(action.text);
  }
  return summary;
}

void RunSession::FillOutcome(RunSummary* summary) const {
  const TrainingJobStatus& status = backend_.job().status;
  summary->restarts = status.restarts;
  summary->steps_repeated = status.progress ? status.progress->steps_repeated : 0;
  if (stop_ != StopStage::kNone && !HasEnded(status)) {
    summary->outcome = stop_outcome_;
    summary->reason = stop_reason_;
    const TrainedSteps trained = stop_ == StopStage::kKill ? TrainedSteps() : record_.Trained();
    const auto unsaved = FirstUnsaved(trained, summary->newest_checkpoints);
    if (unsaved || record_.has_unsaved_model()) {
      // Whoever sees 130 counts on a checkpoint.
      summary->outcome = RunOutcome::kFailed;
      summary->reason += WhyUnsaved(*summary, unsaved, record_.has_unsaved_model());
    }
  } else if (IsTrue(status, ConditionType::kSucceeded)) {
    summary->outcome = RunOutcome::kSucceeded;
  } else {
    const Condition* failed = FindCondition(status, ConditionType::kFailed);
    summary->outcome = RunOutcome::kFailed;
    summary->reason = failed == nullptr ? "" : failed->message;
  }
}

}  // namespace lockstep::control
