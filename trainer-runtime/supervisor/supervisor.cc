#include "trainer-runtime/supervisor/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <sys/signalfd.h>

#include "common/base/check.h"
#include "common/base/io/unique_fd.h"
#include "common/contract/status/exit_code.h"
#include "common/contract/text/last_line.h"
#include "trainer-runtime/supervisor/hang/survivors.h"
#include "trainer-runtime/supervisor/hang/watchdog.h"
#include "trainer-runtime/supervisor/output/pod_output.h"
#include "trainer-runtime/supervisor/pod_verdict.h"
#include "trainer-runtime/supervisor/process/child_process.h"
#include "trainer-runtime/supervisor/process/process_reaper.h"
#include "trainer-runtime/supervisor/process/stop_requests.h"
#include "trainer-runtime/supervisor/process/supervised_signals.h"
#include "trainer-runtime/supervisor/process_names.h"
#include "trainer-runtime/supervisor/program_starter.h"

namespace lockstep::runtime {
namespace {

// After a failure, for the others of the pod: they wait for a peer that will not answer. Choice.
constexpr std::chrono::seconds kLossGrace{2};

// Between two looks at what is known of survivors; and at one that may be saving.
constexpr int kSurvivorsInterval = 50;  // milliseconds
constexpr std::chrono::milliseconds kSpared{500};
// To save in before a start in this pod. Choice: the operator gives a relaunch up after 30 s.
constexpr std::chrono::seconds kSavingInHold{20};

// torchrun's exit code for whatever failure, and Python's for an exception. Source: tried, 1.13.
constexpr int kTorchrunExit = 1;

// For killed processes to vanish, and for the last output to be taken.
constexpr std::chrono::seconds kEndTimeout{2};

class Supervisor {
 public:
  explicit Supervisor(const SuperviseOptions& options)
      : options_(options),
        report_(options.on_event ? options.on_event : [](const SupervisorEvent&) {}),
        output_(options.output_fd, options.error_fd, options.processes.size()),
        starter_(options),
        pids_(options.processes.size()),
        survivors_(NamesOf(options.processes), options.logger) {}

  int Run();

 private:
  Status StartAll();
  Status StartEach();
  void NoteStart(const Status& started);
  bool IsRelaunched();
  Status Start(std::size_t local_rank);
  bool StartAgain(const SupervisorEvent& ended);
  bool KillLeft();

  bool IsEnding() const { return kill_at_.has_value() || is_killed_; }

  // Those that were asked to end have their grace for that.
  bool IsWatched() const { return watchdog_.has_value() && !IsEnding(); }

  void LookForHung();
  void LookForHalt();
  void RunUntilAllEnded();
  void WaitForSomething();
  void HandleSignals();
  void HandleEnded(const EndedChild& ended);
  void Settle(const EndedChild& ended);
  SupervisorEvent EndOf(std::size_t local_rank, const EndedChild& ended);
  void NoteFailure(const SupervisorEvent& ended);
  void AskToEnd(int signal, Duration grace);
  void AskForLoss();
  void EndAtLimit();
  void KillAll();
  TerminationMessage WordsOfPod() const;
  void WriteTerminationMessage();
  void SignalAll(int signal);

  const SuperviseOptions& options_;
  const std::function<void(const SupervisorEvent&)> report_;
  PodOutput output_;
  SubreaperScope subreaper_;
  UniqueFd signals_;
  ProgramStarter starter_;
  std::vector<pid_t> pids_;  // by local rank; 0 when ended
  std::optional<Watchdog> watchdog_;
  StopRequests stops_;
  Survivors survivors_;
  std::optional<Deadline> kill_at_;  // set while all are asked to end
  bool is_killed_ = false;
  bool may_hold_ = true;               // all that were started could be
  bool is_halting_ = false;            // all were asked to end so that they start anew
  TimePoint asked_at_;                 // for a loss
  bool asked_for_loss_ = false;        // SIGTERM was sent, so that one from outside is no news
  bool is_told_to_end_ = false;        // from outside
  bool was_asked_to_end_ = false;      // from outside, before anything had failed
  std::vector<int> left_ranks_;        // that exited 0 before anybody was asked to end
  std::optional<PodFailure> failure_;  // the first
};

int Supervisor::Run() {
  if (options_.hung_after.has_value()) {
    watchdog_.emplace(WatchdogOptions{*options_.hung_after,
                                      NamesOf(options_.processes),
                                      options_.has_peers_elsewhere,
                                      options_.court,
                                      survivors_.socket_name(),
                                      options_.logger});
  }
  signals_ = SignalReader(SupervisedSignals());
  NoteStart(signals_.is_open() ? StartAll() : SystemError(errno, "make a signalfd"));
  do {
    RunUntilAllEnded();
  } while (IsRelaunched());
  WriteTerminationMessage();  // first: the grace period may end at any moment
  if (!KillAllChildren(Deadline::After(SteadyNow(), kEndTimeout))) {
    options_.logger->Warn("some processes still run although they were killed");
  }
  output_.Finish(kEndTimeout);
  return failure_.has_value() ? failure_->exit_code : kExitSuccess;
}

Status Supervisor::StartAll() {
  LOCKSTEP_RETURN_IF_ERROR(starter_.Prepare());
  return StartEach();
}

Status Supervisor::StartEach() {
  for (std::size_t local_rank = 0; local_rank < pids_.size(); ++local_rank) {
    LOCKSTEP_RETURN_IF_ERROR(Start(local_rank));
  }
  return OkStatus();
}

void Supervisor::NoteStart(const Status& started) {
  if (started.ok()) {
    return;
  }
  // The one place that shows the PATH, which may be long: the reason goes to many.
  options_.logger->Error("the command was not started",
                         {{"error", started.error().ToString()}, {"PATH", starter_.search_path()}});
  failure_ = PodFailure{ExitCodeOf(started.error()), 0, started.error().ToString(), {}, {}};
  may_hold_ = false;
  KillAll();
}

// Whether all run again after all have ended, which may take a while. Nothing is left of those
// before: what still holds their ports would be in the way of the next.
bool Supervisor::IsRelaunched() {
  const bool is_over = is_told_to_end_ || (!failure_.has_value() && !is_halting_);
  const PodFailure end = failure_.value_or(PodFailure());
  if (options_.hold == nullptr || is_over || !may_hold_ || !IsHoldable(end) ||
      (options_.may_hold && !options_.may_hold())) {
    if (is_halting_ && !failure_.has_value()) {  // whoever was ended by us has not succeeded
      failure_ = HaltedInVain();
    }
    return false;
  }
  const bool is_clear = KillLeft();
  output_.Finish(kEndTimeout);
  std::string words = WordsOfProgram(options_.termination_message_file);
  words = words.empty() ? EncodeTerminationMessage(WordsOfPod()) : words;
  const TimePoint ended_at = end.ended_at.value_or(SteadyNow());
  const HeldEnd held = {end.exit_code, end.signal, 0, words, ended_at.time_since_epoch().count()};
  const bool is_held = is_clear && options_.hold->AwaitRelaunch(held, WatchForStop().get());
  if (!is_held) {
    failure_ = failure_.has_value() ? failure_ : HaltedInVain();
    return false;
  }
  failure_.reset();
  left_ranks_.clear();
  kill_at_.reset();
  is_killed_ = asked_for_loss_ = is_halting_ = false;
  ForgetWords(options_.termination_message_file);
  NoteStart(StartEach());
  return true;
}

Status Supervisor::Start(std::size_t local_rank) {
  const SupervisedProcess& process = options_.processes[local_rank];
  ProcessStart start;
  if (options_.on_start) {
    LOCKSTEP_ASSIGN_OR_RETURN(start, options_.on_start(static_cast<int>(local_rank)));
  }
  if (watchdog_.has_value()) {
    watchdog_->NoteStart(static_cast<int>(local_rank));
  }
  start.environment[kHangSocketVariable] = survivors_.socket_name();
  LOCKSTEP_ASSIGN_OR_RETURN(ChildProcess child, starter_.Start(local_rank, start));
  const bool is_plain = options_.processes.size() == 1 && process.prefix.empty();
  output_.Attach(local_rank, &child, process.prefix, is_plain);
  pids_[local_rank] = child.pid;
  report_({SupervisorEvent::Kind::kStarted, static_cast<int>(local_rank), child.pid, 0, 0});
  return OkStatus();
}

// Kills what ended processes have left: nobody of those runs. Returns whether all of it is gone.
bool Supervisor::KillLeft() {
  return KillAllChildren(Deadline::After(SteadyNow(), kEndTimeout), starter_.helpers());
}

// Whether the process that ended runs again, and the others need not know.
bool Supervisor::StartAgain(const SupervisorEvent& ended) {
  const bool may_start = !IsEnding() && !failure_.has_value() && options_.wants_again != nullptr;
  if (!may_start || !options_.wants_again(ended)) {
    return false;
  }
  const auto local_rank = static_cast<std::size_t>(ended.local_rank);
  options_.logger->Warn("process lost, a new process takes its place",
                        {{"process", NameOf(options_.processes, local_rank)},
                         {"exit", DescribeExit(ended.exit_code, ended.signal, "")}});
  if (pids_.size() == 1) {  // workers of a torchrun that lead sessions hold ports and GPUs
    KillLeft();
  }
  output_.TakeRest(local_rank);
  ForgetWords(options_.termination_message_file);  // the end that they tell of was none of the pod
  const Status started = Start(local_rank);
  if (!started.ok()) {
    options_.logger->Error("process not started again", {{"error", started.error().ToString()}});
  }
  return started.ok();
}

void Supervisor::RunUntilAllEnded() {
  while (std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; })) {
    WaitForSomething();
    HandleSignals();
    const TimePoint looked_at = SteadyNow();
    while (const std::optional<EndedChild> ended = FindEndedChild(looked_at)) {
      HandleEnded(*ended);
    }
    for (const EndedChild& ended : stops_.TakeSettled(is_killed_)) {
      Settle(ended);
    }
    stops_.Pass(SteadyNow(), kill_at_);
    LookForHung();
    LookForHalt();
    survivors_.KillWaiting(pids_);
    EndAtLimit();
    output_.Pass();
  }
  survivors_.Forget();
}

void Supervisor::WaitForSomething() {
  std::vector<pollfd> entries = {{signals_.get(), POLLIN, 0}};
  if (options_.hold != nullptr) {
    entries.push_back({options_.hold->fd(), POLLIN, 0});
  }
  stops_.AddEntries(&entries);
  output_.AddEntries(&entries);
  const std::optional<Deadline> wake_at =
      IsWatched() ? Deadline::At(watchdog_->next_look()) : stops_.NextTurn(kill_at_);
  int timeout = wake_at.has_value() ? wake_at->RemainingMilliseconds(SteadyNow()) : -1;
  if (survivors_.is_watching()) {
    timeout = timeout < 0 ? kSurvivorsInterval : std::min(timeout, kSurvivorsInterval);
  }
  ::poll(entries.data(), entries.size(), timeout);
}

void Supervisor::LookForHung() {
  const TimePoint now = SteadyNow();
  if (!IsWatched() || now < watchdog_->next_look()) {
    return;
  }
  std::vector<WatchedProcess> processes;
  for (std::size_t local_rank = 0; local_rank < pids_.size(); ++local_rank) {
    const int64_t reports =
        options_.count_reports ? options_.count_reports(static_cast<int>(local_rank)) : 0;
    processes.push_back(
        {pids_[local_rank], output_.IsHeldUp(local_rank), output_.ByteCount(local_rank), reports});
  }
  watchdog_->Look(now, processes, starter_.helpers());
}

void Supervisor::LookForHalt() {
  if (options_.hold == nullptr || !options_.hold->WantsHalt() || IsEnding()) {
    return;
  }
  is_halting_ = true;
  AskForLoss();
}

void Supervisor::HandleSignals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTERM || signal == SIGINT) {
      options_.logger->Info("lockstep-runtime was asked to end", {{"signal", SignalName(signal)}});
      is_told_to_end_ = true;
      was_asked_to_end_ = was_asked_to_end_ || !failure_.has_value();
      if (signal != SIGTERM || !asked_for_loss_) {
        AskToEnd(signal, options_.grace);
      }
    } else if (signal != SIGCHLD) {
      SignalAll(signal);
    }
  }
}

void Supervisor::HandleEnded(const EndedChild& ended) {
  const auto found = std::find(pids_.begin(), pids_.end(), ended.pid);
  if (found == pids_.end()) {
    ReapChild(ended.pid);  // an adopted process: it says nothing about the command
    starter_.NoteEnded(ended.pid);
    return;
  }
  if (!is_killed_ && stops_.Hold(ended)) {
    ReapChild(ended.pid);
    return;
  }
  ::kill(-ended.pid, SIGKILL);  // no stranger's group: the unreaped process holds the number
  ReapChild(ended.pid);
  Settle(ended);
}

void Supervisor::Settle(const EndedChild& ended) {
  stops_.Forget(ended.pid);
  const auto found = std::find(pids_.begin(), pids_.end(), ended.pid);
  *found = 0;
  const auto local_rank = static_cast<std::size_t>(found - pids_.begin());
  const SupervisorEvent event = EndOf(local_rank, ended);
  report_(event);
  if (event.exit_code == kExitSuccess || StartAgain(event)) {
    const std::optional<int> rank = options_.processes[local_rank].rank;
    if (rank && event.exit_code == kExitSuccess && !IsEnding()) {
      left_ranks_.push_back(*rank);
    } else if (rank && event.exit_code == kExitSuccess) {
      AddLateLeaver(*rank, &failure_);
    }
    return;
  }
  NoteFailure(event);
  if (!IsEnding()) {  // else the others save already, and a second signal could end them in it
    AskForLoss();
  }
}

// One that the watchdog has ended counts as killed, whatever it made of the signals before.
SupervisorEvent Supervisor::EndOf(std::size_t local_rank, const EndedChild& ended) {
  const int index = static_cast<int>(local_rank);
  SupervisorEvent event{
      SupervisorEvent::Kind::kEnded, index, ended.pid, ended.exit_code, ended.signal, ended.at};
  const bool is_hung = watchdog_.has_value() && watchdog_->ReasonFor(index).has_value();
  if (options_.judge && (ended.signal != 0 || !(is_hung || IsEnding()))) {
    options_.judge(&event);
  }
  if (is_hung && event.exit_code == ended.exit_code) {
    event.exit_code = kExitSignalBase + SIGKILL;
    event.signal = SIGKILL;
    output_.TakeErrors(local_rank);
    event.why = watchdog_->ReasonWith(index, output_.words(local_rank).PythonPlace());
  } else if (ended.exit_code == kTorchrunExit) {
    output_.TakeErrors(local_rank);
    BlameRank(output_.words(local_rank).FailedRank(options_.torchrun_error_file), &event);
  }
  return event;
}

// The first failure is the pod's. Its reason is what the program said last, if it ended itself.
void Supervisor::NoteFailure(const SupervisorEvent& ended) {
  const auto local_rank = static_cast<std::size_t>(ended.local_rank);
  const std::string what = DescribeExit(ended.exit_code, ended.signal, "");
  const std::optional<int> rank =
      ended.launched ? ended.launched->rank : options_.processes[local_rank].rank;
  const KilledProcess killed{NameOf(options_.processes, ended), ended.pid, what, ended.at};
  // We ask the others to end, and whoever was killed with the first has not heard of it.
  const bool is_of_ours = was_asked_to_end_ || is_halting_ || is_killed_ ||
                          survivors_.HasKilled(ended.pid) ||
                          ended.exit_code == kExitSignalBase + SIGTERM;
  const bool is_with_first = failure_.has_value() && !is_of_ours && AddKilled(killed, &*failure_);
  const bool was_asked =
      was_asked_to_end_ || is_halting_ || (failure_.has_value() && !is_with_first);
  options_.logger->Log(was_asked ? LogLevel::kInfo : LogLevel::kWarn,
                       was_asked ? "process ended when it was asked to" : "process failed",
                       {{"process", killed.name}, {"exit", what}});
  if (failure_.has_value() || is_halting_) {
    return;
  }
  output_.TakeErrors(local_rank);
  const bool was_killed =
      ClassifyExit(ended.exit_code, ended.signal, "").cause == ExitCause::kKilled;
  const bool is_hung = watchdog_.has_value() && watchdog_->ReasonFor(ended.local_rank).has_value();
  // Of a rank of torchrun's that a signal or its own code ended, the last lines are its peers'.
  const bool has_no_words = was_killed || (ended.launched && ended.exit_code != kTorchrunExit);
  std::string words = !ended.why.empty() ? ended.why
                      : has_no_words     ? what
                                         : output_.words(local_rank).Find();
  words = words.empty() ? what : words;
  const bool needs_name = !rank.has_value() && options_.processes.size() > 1;
  failure_ = PodFailure{is_hung ? kExitHung : ended.exit_code,
                        is_hung ? 0 : ended.signal,
                        needs_name ? killed.name + ": " + words : words,
                        rank,
                        output_.words(local_rank).Tail(),
                        ended.at,
                        left_ranks_};
  if (was_killed && !is_hung) {
    failure_->killed = {killed};
  }
}

void Supervisor::AskToEnd(int signal, Duration grace) {
  for (std::size_t local_rank = 0; local_rank < pids_.size(); ++local_rank) {
    const int index = static_cast<int>(local_rank);
    if (pids_[local_rank] != 0) {
      stops_.Ask(pids_[local_rank], options_.session_of ? options_.session_of(index) : 0, signal);
    }
  }
  if (!IsEnding()) {
    kill_at_ = Deadline::After(SteadyNow(), KillAfter(grace));
    report_({SupervisorEvent::Kind::kStopping, -1, 0, 0, signal});
  }
}

void Supervisor::AskForLoss() {
  AskToEnd(SIGTERM, std::min<Duration>(options_.grace, kLossGrace));
  asked_for_loss_ = true;
  asked_at_ = SteadyNow();
  std::vector<pid_t> asked = pids_;
  for (std::size_t i = 0; options_.session_of && i < asked.size(); ++i) {
    if (options_.session_of(static_cast<int>(i)) != 0) {
      asked[i] = 0;  // our library frees it by itself
    }
  }
  survivors_.Watch(asked);
}

// After a loss, who may be saving has the whole grace, for as long as it may be.
void Supervisor::EndAtLimit() {
  if (is_killed_ || !kill_at_.has_value() || !kill_at_->HasPassed(SteadyNow())) {
    return;
  }
  const TimePoint now = SteadyNow();
  const Duration grace = KillAfter(options_.grace);
  const TimePoint last =
      asked_at_ + (options_.hold == nullptr ? grace : std::min<Duration>(grace, kSavingInHold));
  if (survivors_.is_watching() && now < last && survivors_.SpareWorking(pids_)) {
    kill_at_ = Deadline::At(std::min(last, now + kSpared));
    return;
  }
  options_.logger->Warn("grace period is over, so the runtime kills the processes");
  KillAll();
}

void Supervisor::KillAll() {
  is_killed_ = true;
  report_({SupervisorEvent::Kind::kKilling, -1, 0, 0, SIGKILL});
  SignalAll(SIGKILL);
}

TerminationMessage Supervisor::WordsOfPod() const {
  const bool has_work_left = !options_.is_done || !options_.is_done();
  TerminationMessage message = LastWordsOfPod(failure_, was_asked_to_end_ && has_work_left);
  if (options_.hold != nullptr) {
    message.relaunches = options_.hold->relaunches();
  }
  if (options_.add_words) {
    options_.add_words(&message);
  }
  return message;
}

void Supervisor::WriteTerminationMessage() {
  const TerminationMessage message = WordsOfPod();
  if (Status written = LeaveLastWords(options_.termination_message_file, message); !written.ok()) {
    options_.logger->Warn(kMessageNotWritten,
                          {{"error", written.error().ToString()}, {"reason", message.reason}});
  }
}

void Supervisor::SignalAll(int signal) {
  for (const pid_t pid : pids_) {
    if (pid != 0) {
      ::kill(-pid, signal);
    }
  }
}

}  // namespace

int Supervise(const SuperviseOptions& options) {
  LOCKSTEP_CHECK(!options.command.empty(), "there is no command to run");
  LOCKSTEP_CHECK(!options.processes.empty(), "there is no process to run");
  LOCKSTEP_CHECK(options.logger != nullptr, "a supervisor needs a logger");
  BlockSupervisedSignals();
  return Supervisor(options).Run();
}

}  // namespace lockstep::runtime
