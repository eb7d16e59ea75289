#include "operator/local/pod_processes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <system_error>
#include <unistd.h>

#include <sys/syscall.h>

#include "common/base/io/file.h"
#include "common/base/io/unique_fd.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kEnvironmentBytesMax = 4 << 20;  // the kernel's own default is 2 MiB
constexpr std::size_t kLimitsBytesMax = 4096;          // 17 lines of 79 letters
constexpr std::size_t kVmstatBytesMax = 64 << 10;
constexpr int kKillWaitMilliseconds = 20;  // for one SIGKILL to be carried out before a new pass

bool HoldsEntry(std::string_view environment, std::string_view entry) {
  if (environment.starts_with(entry)) {
    return true;
  }
  const std::string inner = std::string(1, '\0') + std::string(entry);
  return environment.find(inner) != std::string_view::npos;
}

// A process, and what more is known of it: read where a selector asks for it, once for all.
class LookedAt {
 public:
  explicit LookedAt(const ProcessStat& entry) : entry_(entry) {}

  bool Matches(const ProcessSelector& selector) {
    if (entry_.pid == selector.spared) {
      return false;
    }
    if (selector.parent != 0 && entry_.parent == selector.parent) {
      return true;
    }
    if (std::find(selector.sessions.begin(), selector.sessions.end(), entry_.session) !=
        selector.sessions.end()) {
      return true;
    }
    if (!selector.environment_prefix.empty() &&
        HoldsEntry(Environment(), selector.environment_prefix)) {
      return true;
    }
    const auto mark = selector.lineage.last != 0 ? Mark() : std::nullopt;
    return mark && *mark >= selector.lineage.first && *mark <= selector.lineage.last;
  }

  bool MatchesAny(const std::vector<ProcessSelector>& selectors) {
    return std::any_of(selectors.begin(), selectors.end(), [this](const ProcessSelector& selector) {
      return Matches(selector);
    });
  }

 private:
  // Empty where it cannot be read.
  const std::string& Environment() {
    if (!environment_) {
      auto text =
          ReadFile("/proc/" + std::to_string(entry_.pid) + "/environ", kEnvironmentBytesMax);
      environment_ = text.ok() ? std::move(text).value() : std::string();
    }
    return *environment_;
  }

  std::optional<uint64_t> Mark() {
    if (!has_read_mark_) {
      has_read_mark_ = true;
      mark_ = LineageMarkOf(entry_.pid);
    }
    return mark_;
  }

  const ProcessStat& entry_;
  std::optional<std::string> environment_;
  bool has_read_mark_ = false;
  std::optional<uint64_t> mark_;
};

// Signals through a pidfd, looking again in between: the pid cannot come to mean another process.
std::optional<UniqueFd> SignalIfMatching(const ProcessStat& seen,
                                         const std::vector<ProcessSelector>& selectors,
                                         int signal) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, seen.pid, 0)));
  if (!pidfd.is_open()) {
    return std::nullopt;
  }
  const auto again = ReadProcessStat(seen.pid);
  if (!again || HasEnded(*again) || !LookedAt(*again).MatchesAny(selectors)) {
    return std::nullopt;
  }
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) != 0) {
    return std::nullopt;
  }
  return pidfd;
}

// One pass over the table: a descriptor for each process that was signalled.
std::vector<UniqueFd> SignalOnce(const std::vector<ProcessSelector>& selectors, int signal) {
  const pid_t self = ::getpid();
  std::vector<UniqueFd> signalled;
  for (const ProcessStat& entry : ReadProcessStats()) {
    if (entry.pid == self || HasEnded(entry) || !LookedAt(entry).MatchesAny(selectors)) {
      continue;
    }
    if (auto pidfd = SignalIfMatching(entry, selectors, signal)) {
      signalled.push_back(*std::move(pidfd));
    }
  }
  return signalled;
}

}  // namespace

bool IsStopped(pid_t pid) {
  const auto stat = ReadProcessStat(pid);
  return stat && stat->state == 'T';
}

std::optional<uint64_t> LineageMarkOf(pid_t pid) {
  const auto text = ReadFile("/proc/" + std::to_string(pid) + "/limits", kLimitsBytesMax);
  constexpr std::string_view kName = "Max file locks";
  const std::size_t name = text.ok() ? text->find(kName) : std::string::npos;
  const std::size_t at =
      name == std::string::npos ? name : text->find_first_not_of(' ', name + kName.size());
  if (at == std::string::npos) {
    return std::nullopt;
  }
  uint64_t mark = 0;
  const auto [end, error] = std::from_chars(text->data() + at, text->data() + text->size(), mark);
  return error == std::errc() ? std::optional(mark) : std::nullopt;  // "unlimited" is none
}

int SignalMatching(const ProcessSelector& selector, int signal) {
  return static_cast<int>(SignalOnce({selector}, signal).size());
}

int KillMatching(const std::vector<ProcessSelector>& selectors, int rounds_max) {
  int killed = 0;
  for (int round = 0; round < rounds_max; ++round) {
    const std::vector<UniqueFd> dying = SignalOnce(selectors, SIGKILL);
    if (dying.empty()) {
      break;
    }
    killed += static_cast<int>(dying.size());
    for (const UniqueFd& pidfd : dying) {
      pollfd wait{pidfd.get(), POLLIN, 0};
      ::poll(&wait, 1, kKillWaitMilliseconds);
    }
  }
  return killed;
}

std::map<pid_t, int64_t> ResidentBytesByLeader(const std::vector<ProcessStat>& table,
                                               const std::vector<pid_t>& leaders) {
  std::map<pid_t, pid_t> parent_of;
  for (const ProcessStat& entry : table) {
    parent_of[entry.pid] = entry.parent;
  }
  const auto is_leader = [&leaders](pid_t pid) {
    return std::find(leaders.begin(), leaders.end(), pid) != leaders.end();
  };
  std::map<pid_t, int64_t> bytes;
  for (const ProcessStat& entry : table) {
    pid_t owner = is_leader(entry.session) ? entry.session : entry.pid;
    // The table was not read in one moment, so a chain of parents could loop: the count bounds it.
    for (std::size_t height = 0; !is_leader(owner) && height < table.size(); ++height) {
      const auto parent = parent_of.find(owner);
      if (parent == parent_of.end()) {
        break;
      }
      owner = parent->second;
    }
    if (is_leader(owner)) {
      bytes[owner] += entry.resident_bytes;
    }
  }
  return bytes;
}

int64_t ReadOomKillCount() {
  const auto text = ReadFile("/proc/vmstat", kVmstatBytesMax);
  constexpr std::string_view kName = "\noom_kill ";
  const std::size_t at = text.ok() ? text->find(kName) : std::string::npos;
  if (at == std::string::npos) {
    return -1;
  }
  int64_t count = -1;
  const char* begin = text->data() + at + kName.size();
  std::from_chars(begin, text->data() + text->size(), count);
  return count;
}

}  // namespace lockstep::control
