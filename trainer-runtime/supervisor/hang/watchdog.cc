#include "trainer-runtime/supervisor/hang/watchdog.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <set>
#include <unistd.h>
#include <utility>

#include <sys/resource.h>

#include "common/base/check.h"
#include "trainer-runtime/supervisor/hang/thread_states.h"

namespace lockstep::runtime {
namespace {

// For a handler to write the stacks of some hundred threads. Choice: faulthandler takes
// milliseconds, and what hangs has waited for longer.
constexpr std::chrono::seconds kStacksPatience{2};
// Choice: no process takes so long to be reaped.
constexpr int kUnseenLooksTold = 3;

constexpr Duration kEndingInterval = std::chrono::milliseconds(50);

// Of one program in the log. Choice: launcher, program and some loaders, with their first threads.
constexpr std::size_t kProcessesToldMax = 8;
constexpr std::size_t kThreadsToldMax = 32;

std::string SecondsText(Duration duration) {
  const double seconds = std::round(ToSeconds(duration) * 10) / 10;
  std::string text = std::to_string(seconds);
  return text.substr(0, text.find('.') + 2) + " s";
}

// A core file of a program with gigabytes takes longer to write than a successor takes to start.
void ForbidCore(pid_t pid) {
  const rlimit none{0, 0};
  ::prlimit(pid, RLIMIT_CORE, &none, nullptr);  // refused: then there may be one
}

// Which of those that hang was first, as far as it can be told from this pod.
std::string DescribeBlame(const HungProcess& culprit,
                          const std::vector<HungProcess>& hung,
                          const std::vector<HungProcess>& culprits,
                          bool has_peers_elsewhere) {
  if (culprit.is_stopped) {
    return "";
  }
  if (culprits.size() > 1) {
    return "; " + std::to_string(hung.size()) +
           " processes of the pod stopped working at the same time, so it is unknown which of "
           "these processes caused the hang";
  }
  if (hung.size() > 1) {
    return "; the other processes of the pod stopped later, because they wait for this process";
  }
  return has_peers_elsewhere ? "; perhaps this process only waits for a rank in another pod" : "";
}

}  // namespace

Watchdog::Watchdog(WatchdogOptions options)
    : options_(std::move(options)),
      watch_(options_.limit, static_cast<int>(options_.names.size())),
      next_look_(SteadyNow()),
      reasons_(options_.names.size()),
      endings_(options_.names.size()),
      court_({options_.limit,
              options_.has_peers_elsewhere,
              [this](const std::vector<std::vector<pid_t>>& families) {
                return LookAround(families);
              }}) {
  LOCKSTEP_CHECK(options_.logger != nullptr, "a watchdog needs a logger");
}

void Watchdog::NoteStart(int local_rank) {
  reasons_[static_cast<std::size_t>(local_rank)].reset();
}

const std::optional<std::string>& Watchdog::ReasonFor(int local_rank) const {
  return reasons_[static_cast<std::size_t>(local_rank)];
}

std::string Watchdog::ReasonWith(int local_rank, const std::string& python_place) const {
  const std::string& reason = *ReasonFor(local_rank);
  const bool is_told = python_place.empty() || reason.find(python_place) != std::string::npos;
  return reason + (is_told ? "" : "; Python was in " + python_place);
}

ProcessActivity Watchdog::ActivityOf(const WatchedProcess& process,
                                     const std::vector<ProcessStat>& table,
                                     const std::vector<ProcessStat>& adopted) const {
  ProcessActivity activity;
  activity.is_held_up = process.is_held_up;
  activity.output_bytes = process.output_bytes;
  activity.report_count = process.report_count;
  if (process.pid == 0) {
    return activity;
  }
  for (const ProcessStat& stat : FamilyOf(table, process.pid)) {
    activity.is_running = activity.is_running || stat.pid == process.pid;
    activity.cpu[stat.pid] = stat.cpu;
    activity.is_ready = activity.is_ready || stat.state == 'R';
    activity.is_stopped = activity.is_stopped || stat.state == 'T' || stat.state == 't';
  }
  for (const ProcessStat& stat : adopted) {
    activity.cpu[stat.pid] = stat.cpu;
    activity.is_ready = activity.is_ready || stat.state == 'R';
  }
  return activity;
}

// Once. One that has ended and is not reaped yet is missing at one look.
void Watchdog::TellUnseen(const std::vector<WatchedProcess>& processes,
                          const std::vector<ProcessActivity>& seen) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].pid != 0 && !seen[i].is_running) {
      unseen_looks_ = std::min(unseen_looks_ + 1, kUnseenLooksTold + 1);
      if (unseen_looks_ == kUnseenLooksTold) {
        options_.logger->Warn(
            "process cannot be observed, so it is unknown whether it hangs",
            {{"process", options_.names[i]}, {"folder", options_.process_folder}});
      }
      return;
    }
  }
  unseen_looks_ = unseen_looks_ < kUnseenLooksTold ? 0 : unseen_looks_;
}

void Watchdog::Look(TimePoint now,
                    const std::vector<WatchedProcess>& processes,
                    const std::vector<pid_t>& helpers) {
  const std::vector<ProcessStat> table = ReadProcessTable(options_.process_folder);
  std::set<pid_t> started(helpers.begin(), helpers.end());
  for (const WatchedProcess& process : processes) {
    started.insert(process.pid);
  }
  const std::vector<ProcessStat> adopted = AdoptedBy(table, ::getpid(), started);
  std::vector<ProcessActivity> seen;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    seen.push_back(ActivityOf(processes[i], table, adopted));
  }
  TellUnseen(processes, seen);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    seen[i].is_running = seen[i].is_running && !endings_[i].has_value();
  }
  const std::vector<HungProcess> hung = watch_.Look(now, seen);
  HearCourt(now, processes, table);
  const bool is_any_stopped =
      std::any_of(hung.begin(), hung.end(), [](const HungProcess& one) { return one.is_stopped; });
  if (is_any_stopped || !court_.Reserves(now)) {
    EndIdle(now, processes, table, hung);
  }
  KillOverdue(now, processes);
  const bool is_ending = std::any_of(
      endings_.begin(), endings_.end(), [](const auto& ending) { return ending.has_value(); });
  next_look_ = now + (is_ending ? std::min(kEndingInterval, watch_.interval()) : watch_.interval());
}

// On the court's thread. What the programs say comes first: they know where they are.
HangLook Watchdog::LookAround(const std::vector<std::vector<pid_t>>& families) const {
  HangLook look = AskProcesses(options_.hang_socket, families);
  if (options_.court.ask_nccl) {
    HangLook more = options_.court.ask_nccl();
    look.ranks.insert(look.ranks.end(), more.ranks.begin(), more.ranks.end());
    look.local_ranks.merge(more.local_ranks);
  }
  return look;
}

// Ends the ranks that others wait for, whatever they use of a core.
void Watchdog::HearCourt(TimePoint now,
                         const std::vector<WatchedProcess>& processes,
                         const std::vector<ProcessStat>& table) {
  int64_t report_count = 0;
  std::vector<std::vector<pid_t>> families;
  for (const WatchedProcess& process : processes) {
    report_count += process.report_count;
    families.emplace_back();
    if (process.pid == 0) {
      continue;  // everybody descends from there
    }
    for (const ProcessStat& stat : FamilyOf(table, process.pid)) {
      families.back().push_back(stat.pid);
    }
  }
  const bool has_stepped = options_.court.has_stepped && options_.court.has_stepped();
  const std::optional<HangFinding> finding = court_.Look(now, report_count, has_stepped, families);
  if (options_.court.on_evidence) {
    options_.court.on_evidence(court_.evidence());
  }
  if (!finding.has_value()) {
    return;
  }
  for (const int local_rank : finding->culprits) {
    const auto index = static_cast<std::size_t>(local_rank);
    const pid_t pid = processes[index].pid;
    if (pid != 0 && !endings_[index].has_value()) {
      const std::vector<ProcessStat> family = FamilyOf(table, pid);
      LogThreads(local_rank, family);
      Condemn(local_rank, "hangs: " + finding->sentence);
      End(local_rank, pid, now, family);
    }
  }
}

void Watchdog::EndIdle(TimePoint now,
                       const std::vector<WatchedProcess>& processes,
                       const std::vector<ProcessStat>& table,
                       const std::vector<HungProcess>& hung) {
  const std::vector<HungProcess> culprits = CulpritsAmong(hung, watch_.interval());
  for (const HungProcess& one : hung) {
    const pid_t pid = processes[static_cast<std::size_t>(one.local_rank)].pid;
    LogThreads(one.local_rank, FamilyOf(table, pid));
  }
  for (const HungProcess& one : culprits) {
    const auto index = static_cast<std::size_t>(one.local_rank);
    if (endings_[index].has_value()) {
      continue;  // the court was first
    }
    const pid_t pid = processes[index].pid;
    const std::vector<ThreadState> main = ReadThreadStates(pid, 1);
    const std::string where =
        one.is_stopped
            ? "it is stopped (SIGSTOP, or a debugger)"
            : "its main thread " + (main.empty() ? "is gone" : DescribeThreadState(main.front()));
    Condemn(one.local_rank,
            "hangs: for " + SecondsText(one.idle) + " no output, no processor time and no step; " +
                where + DescribeBlame(one, hung, culprits, options_.has_peers_elsewhere));
    End(one.local_rank, pid, now, FamilyOf(table, pid));
  }
}

void Watchdog::Condemn(int local_rank, std::string reason) {
  const auto index = static_cast<std::size_t>(local_rank);
  reasons_[index] = std::move(reason);
  options_.logger->Warn("process hangs, so the runtime ends it",
                        {{"process", options_.names[index]}, {"reason", *reasons_[index]}});
}

void Watchdog::LogThreads(int local_rank, const std::vector<ProcessStat>& family) {
  const std::string& name = options_.names[static_cast<std::size_t>(local_rank)];
  for (std::size_t i = 0; i < std::min(family.size(), kProcessesToldMax); ++i) {
    for (const ThreadState& state : ReadThreadStates(family[i].pid, kThreadsToldMax)) {
      options_.logger->Warn("thread of a process that hangs",
                            {{"process", name},
                             {"pid", family[i].pid},
                             {"thread", state.thread},
                             {"name", state.name},
                             {"state", DescribeThreadState(state)}});
    }
  }
}

void Watchdog::End(int local_rank,
                   pid_t pid,
                   TimePoint now,
                   const std::vector<ProcessStat>& family) {
  bool is_asked = false;
  for (const ProcessStat& stat : family) {
    if (CatchesSignal(stat.pid, SIGABRT)) {
      ForbidCore(stat.pid);
      ::kill(stat.pid, SIGABRT);
      ::kill(stat.pid, SIGCONT);  // one that is stopped takes no signal before
      is_asked = true;
    }
  }
  // The unreaped child holds its number, so this cannot hit a stranger.
  endings_[static_cast<std::size_t>(local_rank)] =
      Ending{pid, Deadline::After(now, is_asked ? Duration(kStacksPatience) : Duration(0))};
}

void Watchdog::KillOverdue(TimePoint now, const std::vector<WatchedProcess>& processes) {
  for (std::size_t i = 0; i < endings_.size(); ++i) {
    if (!endings_[i].has_value()) {
      continue;
    }
    const bool is_gone = processes[i].pid != endings_[i]->pid;
    if (!is_gone && endings_[i]->killed_at.HasPassed(now)) {
      ::kill(-endings_[i]->pid, SIGKILL);
    }
    if (is_gone) {
      endings_[i].reset();
    }
  }
}

}  // namespace lockstep::runtime
