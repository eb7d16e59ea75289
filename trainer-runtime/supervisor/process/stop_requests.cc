#include "trainer-runtime/supervisor/process/stop_requests.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <unistd.h>
#include <utility>

#include <sys/syscall.h>

#include "trainer-runtime/supervisor/process/process_table.h"

namespace lockstep::runtime {
namespace {

// For who has started a process with a session, once that has ended. Choice: a script's last lines
// take milliseconds, and a launcher in Python ends within some tenths of a second; one that starts
// its next program instead trains for so long in vain.
constexpr std::chrono::seconds kWrapperTime{2};

bool IsReadable(int pid_fd) {
  pollfd entry{pid_fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) != 0;
}

// A pidfd, which names the process even after its number is another's (pidfd_open(2)). What it is
// is looked at after that, so that a stranger's number is found out. Old kernels have none.
UniqueFd OpenProcess(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

UniqueFd OpenMember(pid_t pid, pid_t group) {
  UniqueFd pid_fd = OpenProcess(pid);
  return ::getpgid(pid) == group ? std::move(pid_fd) : UniqueFd();
}

// Of the program that `leader` began, which may have put it into a group of its own.
UniqueFd OpenRelative(pid_t pid, pid_t leader) {
  UniqueFd pid_fd = OpenProcess(pid);
  const std::vector<ProcessStat> family = FamilyOf(ReadProcessTable("/proc"), leader);
  const bool is_relative = std::any_of(
      family.begin(), family.end(), [pid](const ProcessStat& one) { return one.pid == pid; });
  return is_relative ? std::move(pid_fd) : UniqueFd();
}

// Returns whether any is left.
bool RemoveEnded(std::vector<UniqueFd>* pid_fds) {
  std::erase_if(*pid_fds, [](const UniqueFd& pid_fd) { return IsReadable(pid_fd.get()); });
  return !pid_fds->empty();
}

}  // namespace

Duration KillAfter(Duration grace) {
  constexpr Duration kMarginMax = std::chrono::seconds(1);
  constexpr int kMarginShare = 5;
  return grace - std::min(kMarginMax, grace / kMarginShare);
}

TimePoint TurnOfRest(TimePoint ended_at, TimePoint kill_at) {
  const Duration left = std::max(kill_at - ended_at, Duration::zero());
  return ended_at + std::min<Duration>(kWrapperTime, left / 2);
}

std::vector<pid_t> LeftHelpers(const std::vector<ProcessStat>& table, pid_t leader, pid_t reaper) {
  std::vector<pid_t> left;
  for (const ProcessStat& stat : table) {
    if (stat.group == leader && stat.parent == reaper && stat.pid != leader) {
      left.push_back(stat.pid);
    }
  }
  return left;
}

std::vector<pid_t> HandlersOf(const std::vector<ProcessStat>& table, pid_t leader, int signal) {
  std::vector<pid_t> handlers;
  for (const ProcessStat& stat : table) {
    if (stat.group == leader && stat.pid != leader && Handles(stat, signal)) {
      handlers.push_back(stat.pid);
    }
  }
  return handlers;
}

void StopRequests::AskGroup(pid_t leader, int signal) {
  Asked& asked = asked_[leader];
  asked.signals.insert(signal);
  for (const pid_t pid : HandlersOf(ReadProcessTable("/proc"), leader, signal)) {
    UniqueFd pid_fd = OpenMember(pid, leader);
    if (pid_fd.is_open()) {
      asked.ending.push_back(std::move(pid_fd));
    }
  }
  ::kill(-leader, signal);
}

void StopRequests::Ask(pid_t leader, pid_t session, int signal) {
  if (const auto found = waiting_.find(leader); found != waiting_.end()) {
    Waiting& waiting = found->second;
    waiting.signal = signal;
    // One that has closed its session is on its way out, perhaps without a handler by now.
    if (waiting.session_fd.is_open() && waiting.session == session) {
      ::syscall(SYS_pidfd_send_signal, waiting.session_fd.get(), signal, nullptr, 0);
    }
    return;
  }
  UniqueFd session_fd = session > 0 ? OpenRelative(session, leader) : UniqueFd();
  if (!session_fd.is_open() || IsReadable(session_fd.get())) {
    AskGroup(leader, signal);
    return;
  }
  ::syscall(SYS_pidfd_send_signal, session_fd.get(), signal, nullptr, 0);
  waiting_[leader] = Waiting{session, std::move(session_fd), std::nullopt, signal};
}

void StopRequests::AddEntries(std::vector<pollfd>* entries) const {
  for (const auto& [leader, waiting] : waiting_) {
    if (waiting.session_fd.is_open()) {
      entries->push_back({waiting.session_fd.get(), POLLIN, 0});
    }
  }
  for (const auto& [leader, ended] : held_) {
    for (const UniqueFd& pid_fd : asked_.at(leader).ending) {
      entries->push_back({pid_fd.get(), POLLIN, 0});
    }
  }
}

std::optional<Deadline> StopRequests::NextTurn(std::optional<Deadline> kill_at) const {
  std::optional<Deadline> next = kill_at;
  for (const auto& [leader, waiting] : waiting_) {
    if (waiting.turn_at.has_value() && (!next.has_value() || *waiting.turn_at < next->when())) {
      next = Deadline::At(*waiting.turn_at);
    }
  }
  return next;
}

void StopRequests::Pass(TimePoint now, std::optional<Deadline> kill_at) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const pid_t leader = at->first;
    Waiting& waiting = at->second;
    if (waiting.session_fd.is_open() && IsReadable(waiting.session_fd.get())) {
      waiting.session_fd.Reset();
      waiting.turn_at = TurnOfRest(now, kill_at.has_value() ? kill_at->when() : now);
      // Whoever reads what they write would wait for them. They are children of this process, so
      // that no number of theirs is another's.
      for (const pid_t left : LeftHelpers(ReadProcessTable("/proc"), leader, ::getpid())) {
        ::kill(left, waiting.signal);
      }
    }
    if (waiting.turn_at.has_value() && now >= *waiting.turn_at) {
      AskGroup(leader, waiting.signal);
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  }
}

bool StopRequests::Hold(const EndedChild& leader) {
  const auto asked = asked_.find(leader.pid);
  if (asked == asked_.end() || asked->second.signals.count(leader.signal) == 0 ||
      !RemoveEnded(&asked->second.ending)) {
    return false;
  }
  held_[leader.pid] = leader;
  return true;
}

std::vector<EndedChild> StopRequests::TakeSettled(bool all) {
  std::vector<EndedChild> settled;
  for (auto at = held_.begin(); at != held_.end();) {
    if (!all && RemoveEnded(&asked_.at(at->first).ending)) {
      ++at;
      continue;
    }
    settled.push_back(at->second);
    Forget(at->first);
    at = held_.erase(at);
  }
  return settled;
}

void StopRequests::Forget(pid_t leader) {
  waiting_.erase(leader);
  asked_.erase(leader);
}

}  // namespace lockstep::runtime
