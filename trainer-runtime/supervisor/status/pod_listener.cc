#include "trainer-runtime/supervisor/status/pod_listener.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <sys/syscall.h>

#include "common/contract/environment/supervised_place.h"
#include "common/contract/status/exit_code.h"
#include "common/process/cores.h"
#include "trainer-runtime/supervisor/status/pod_metrics.h"
#include "trainer-runtime/telemetry/metrics.h"

namespace lockstep::runtime {
namespace {

// Between two looks at who is silent, and until a new channel is heard. Choice.
constexpr std::chrono::milliseconds kLookInterval{50};

// A listener that was held up itself for so long knows nothing of the silence of others. Choice.
constexpr Duration kOwnSilence = std::chrono::milliseconds(500);

// For a process to read what is passed on. Choice: messages are few, and its channel holds dozens.
constexpr Duration kTellPatience = std::chrono::milliseconds(100);

// As the Python package says it of an error that a program has caught.
std::string NoSuccess(const std::string& but, const std::string& words) {
  return "the program ended with exit code 0, but " + but + ", so this pod ends with " +
         std::to_string(kExitUnfinished) + ": " + words;
}

// A document is sent again by a thread of its own, whatever the program does meanwhile.
bool TellsOfMore(const std::optional<StatusDocument>& before, const StatusDocument& now) {
  return !before.has_value() || before->step != now.step || before->epoch != now.epoch ||
         before->phase != now.phase;
}

double CoreCount() {
  constexpr double kMilli = 1000;
  return static_cast<double>(ReadCpuMilli("", CountCores())) / kMilli;
}

}  // namespace

PodListener::PodListener(int process_count,
                         Duration silent_after,
                         Logger* logger,
                         bool has_own_models)
    : limits_(LimitsOf(silent_after, process_count / CoreCount())),
      logger_(logger),
      has_own_models_(has_own_models),
      processes_(static_cast<std::size_t>(process_count)),
      reports_(static_cast<std::size_t>(process_count)),
      optimizers_(static_cast<std::size_t>(process_count)) {}

void PodListener::ShowOn(StatusBoard* board) {
  board_ = board;
  thread_ = std::jthread([this](const std::stop_token& stop) { Listen(stop); });
}

void PodListener::StopShowing() {
  if (!thread_.joinable()) {
    return;
  }
  thread_ = std::jthread();  // asks the thread to stop and waits for it
  const std::lock_guard<std::mutex> lock(mutex_);
  HearAll();
}

Result<UniqueFd> PodListener::Connect(int local_rank) {
  LOCKSTEP_ASSIGN_OR_RETURN(ChannelEnds ends, MakeChannel());
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto index = static_cast<std::size_t>(local_rank);
  CloseReport(&reports_[index]);
  processes_[index] = Process{};
  processes_[index].channel = std::move(ends.supervisor);
  return std::move(ends.process);
}

void PodListener::NoteStarted(int local_rank, pid_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Names this process even after its number is another's (pidfd_open(2)).
  processes_[static_cast<std::size_t>(local_rank)].pid = pid;
  processes_[static_cast<std::size_t>(local_rank)].pid_fd =
      UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  NoteSuccessor(SteadyNow(), &reports_[static_cast<std::size_t>(local_rank)]);
}

void PodListener::NoteEnded(int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  Hear(index);
  processes_[index].channel.Reset();
  processes_[index].pid_fd.Reset();
  processes_[index].heard_at.reset();
  const bool has_said_all = processes_[index].last_words.has_value();
  if (!has_said_all) {  // a successor is to come, or the pod ends: its document is old news
    CloseReport(&reports_[index]);
    NoteLost(processes_[index].hangs_since.value_or(SteadyNow()), &reports_[index]);
  }
}

void PodListener::ForgetLosses() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (ProcessReport& report : reports_) {
    report.lost_at.reset();
  }
  furthest_.reset();
  trainer_.reset();
  trainer_progress_ = TrainerProgress();
  for (std::size_t i = 0; i < optimizers_.size() && step_file_.has_value(); ++i) {
    step_file_->ForgetStep(static_cast<int>(i));
    optimizers_[i].step.reset();
  }
  pace_.Reset();
}

void PodListener::TakeTrainerStatus(const TrainerStatus& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  trainer_ = status;
  trainer_progress_.Take(status);
  ++trainer_report_count_;
}

void PodListener::ReadSteps(StepFile file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  step_file_ = std::move(file);
}

std::string PodListener::ToldPage() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trainer_.has_value() ? RenderToldPage(trainer_->metrics) : "";
}

void PodListener::Tell(ControlMessage message) {
  message.incarnation = IncarnationOfProcess(message.incarnation, 0);
  const std::string text = EncodeControlMessage(message);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Process& process : processes_) {
    if (process.channel.is_open()) {
      const Status sent = SendToChannel(process.channel.get(),
                                        {ChannelWord::kControl, text},
                                        Deadline::After(SteadyNow(), kTellPatience));
      if (!sent.ok()) {
        logger_->Warn("a control message did not reach a process of this pod",
                      {{"error", sent.error().ToString()}});
      }
    }
  }
}

bool PodListener::IsMissed(int local_rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return processes_[static_cast<std::size_t>(local_rank)].is_missed;
}

bool PodListener::IsDone(int local_rank, pid_t pid) {
  const auto index = static_cast<std::size_t>(local_rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  Hear(index);
  const std::optional<StatusDocument>& newest = reports_[index].newest;
  return newest.has_value() && newest->pid == pid && newest->phase == Phase::kSucceeded;
}

std::string PodListener::Objection(int local_rank, int exit_code) {
  const auto index = static_cast<std::size_t>(local_rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  Hear(index);
  if (exit_code == kExitSuperseded && !reports_[index].newest.has_value()) {
    return "the program ended with exit code 76, which means that a newer process has replaced it. "
           "There is no newer process, so this pod ends with exit code " +
           std::to_string(kExitUnfinished) + ". Use another exit code in the program";
  }
  const std::optional<StatusDocument>& met = processes_[index].newest_met;
  if (exit_code != kExitSuccess || !met.has_value() || met->phase == Phase::kSucceeded) {
    return "";
  }
  if (!met->mismatch.empty()) {
    return NoSuccess("the ranks had made different calls", met->mismatch);
  }
  if (!met->steps_total.has_value()) {
    return "";
  }
  const int64_t step = met->step.value();
  return NoSuccess(
      "last reported step " + std::to_string(step) + " of " + std::to_string(*met->steps_total) +
          ", and never reported that all work is done",
      step < *met->steps_total
          ? "to end early, leave the loop and close the job, or call finish on all ranks"
          : "if an error ended the program, the last steps may not be saved; call finish on all "
            "ranks when all work is done");
}

pid_t PodListener::SessionOf(int local_rank) const {
  const auto index = static_cast<std::size_t>(local_rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool speaks = processes_[index].heard_at.has_value() && reports_[index].newest.has_value();
  return speaks ? static_cast<pid_t>(reports_[index].newest->pid) : 0;
}

int64_t PodListener::CountReports(int local_rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto index = static_cast<std::size_t>(local_rank);
  return processes_[index].report_count + trainer_report_count_ + optimizers_[index].count;
}

bool PodListener::HasStepped() const {
  if (newest_step() > Step()) {
    return true;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(optimizers_.begin(), optimizers_.end(), [](const OptimizerSteps& steps) {
    return steps.count > 0;
  });
}

Step PodListener::newest_step() const {
  const std::optional<StatusDocument> furthest = Furthest();
  return furthest.has_value() ? furthest->step : Step();
}

std::optional<StatusDocument> PodListener::Furthest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  StatusDocument document;
  return ShowToldSteps(&document) ? document : furthest_;
}

std::optional<Step> PodListener::OptimizerStep() const {
  std::optional<Step> newest;
  for (const OptimizerSteps& steps : optimizers_) {
    newest = std::max(newest, steps.step);
  }
  return newest;
}

bool PodListener::ShowToldSteps(StatusDocument* document) const {
  const std::optional<Step> taken = OptimizerStep();
  if (SessionCountsSteps() || (!trainer_.has_value() && !taken.has_value())) {
    return false;
  }
  document->step = Step();
  if (trainer_.has_value()) {
    trainer_progress_.ShowIn(document);
  }
  if (document->step == Step()) {
    document->step = taken.value_or(Step());
  }
  return true;
}

bool PodListener::SessionCountsSteps() const {
  return furthest_.has_value() && (furthest_->step != Step() || furthest_->steps_total.has_value());
}

std::string PodListener::MetricsPage() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> pages;
  for (const Process& process : processes_) {
    pages.push_back(process.metrics);
  }
  return JoinMetricsPages(pages);
}

std::optional<TerminationMessage> PodListener::LastWordsOf(int local_rank) const {
  const auto index = static_cast<std::size_t>(local_rank);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::optional<TerminationMessage> words = processes_[index].last_words;
  if (words.has_value()) {
    const StatusDocument pod = PodStatus(StatusDocument(), {reports_[index]});
    words->last_checkpoint_step = std::max(words->last_checkpoint_step, pod.last_checkpoint_step);
    if (pod.checkpoints != CheckpointStatus()) {
      words->checkpoints = pod.checkpoints;
    }
    if (has_own_models_ && local_rank > 0) {
      words->history.clear();  // the pod's is the first process's
    }
  }
  return words;
}

void PodListener::Listen(const std::stop_token& stop) {
  TimePoint looked_at = SteadyNow();
  while (!stop.stop_requested()) {
    std::vector<pollfd> entries;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const Process& process : processes_) {
        entries.push_back({process.channel.get(), POLLIN, 0});
      }
    }
    // A channel that is replaced meanwhile is read in the next round.
    ::poll(entries.data(), entries.size(), static_cast<int>(kLookInterval.count()));
    const std::lock_guard<std::mutex> lock(mutex_);
    HearAll();
    const TimePoint now = SteadyNow();
    if (now - looked_at > kOwnSilence) {
      for (Process& process : processes_) {
        process.heard_at = process.heard_at.has_value() ? std::optional(now) : std::nullopt;
      }
    }
    looked_at = now;
    KillSilent(now);
  }
}

void PodListener::HearAll() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Hear(i);
  }
  for (std::size_t i = 0; i < optimizers_.size() && step_file_.has_value(); ++i) {
    optimizers_[i] = step_file_->Read(static_cast<int>(i));
  }
  board_->Update([this](StatusDocument& document) {
    document = PodStatus(document, reports_, has_own_models_);
    ShowToldSteps(&document);
    pace_.Note(document.step, SteadyNow());
    const std::optional<Duration> left =
        document.steps_total.has_value() ? pace_.Until(*document.steps_total) : std::nullopt;
    document.eta_seconds = left.has_value() ? std::optional(ToSeconds(*left)) : std::nullopt;
  });
}

void PodListener::Hear(std::size_t local_rank) {
  Process& process = processes_[local_rank];
  while (process.channel.is_open()) {
    const auto message = ReceiveFromChannel(process.channel.get());
    if (!message.ok()) {
      process.channel.Reset();
      return;
    }
    if (!message->has_value()) {
      return;
    }
    process.heard_at = SteadyNow();
    Take(local_rank, **message);
  }
}

void PodListener::Take(std::size_t local_rank, const ChannelMessage& message) {
  switch (message.word) {
    case ChannelWord::kStatus:
      if (auto document = DecodeStatusDocument(message.text); document.ok()) {
        if (!furthest_.has_value() || document->step >= furthest_->step) {
          furthest_ = *document;
        }
        processes_[local_rank].report_count +=
            TellsOfMore(reports_[local_rank].newest, *document) ? 1 : 0;
        processes_[local_rank].is_missed =
            !document->backend.empty() && document->phase != Phase::kSucceeded;
        if (!document->backend.empty() || !document->mismatch.empty()) {
          processes_[local_rank].newest_met = *document;
        }
        reports_[local_rank].newest = std::move(document).value();
      }
      return;
    case ChannelWord::kMetrics:
      processes_[local_rank].metrics = message.text;
      return;
    case ChannelWord::kLastWords:
      if (auto words = DecodeTerminationMessage(message.text); words.ok()) {
        processes_[local_rank].last_words = std::move(words).value();
      }
      return;
    case ChannelWord::kGoodbye:
      processes_[local_rank].heard_at.reset();
      return;
    case ChannelWord::kAlive:
    case ChannelWord::kControl:
      return;
  }
}

void PodListener::KillSilent(TimePoint now) {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (!process.heard_at.has_value() || process.last_words.has_value() ||
        !process.pid_fd.is_open() || now < process.next_look) {
      continue;
    }
    const Duration silent = now - *process.heard_at;
    if (silent < limits_.suspect) {
      continue;
    }
    process.next_look = now + limits_.look;
    if (!IsGivenUp(silent, limits_, watch_.LookAtProcess(process.pid, now))) {
      continue;
    }
    logger_->Warn("process hangs: the runtime hears nothing from it and kills it",
                  {{"local_rank", i}, {"silent_seconds", ToSeconds(silent)}});
    ::syscall(SYS_pidfd_send_signal, process.pid_fd.get(), SIGKILL, nullptr, 0);
    process.hangs_since = std::exchange(process.heard_at, std::nullopt);
  }
}

}  // namespace lockstep::runtime
