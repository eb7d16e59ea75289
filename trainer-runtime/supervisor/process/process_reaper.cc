#include "trainer-runtime/supervisor/process/process_reaper.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <poll.h>
#include <string>
#include <system_error>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/base/check.h"
#include "common/base/io/file.h"
#include "common/contract/status/exit_code.h"

namespace lockstep::runtime {
namespace {

// The children of one thread, as the kernel lists them: "12 345 6789 ".
std::vector<pid_t> ParsePids(const std::string& text) {
  std::vector<pid_t> pids;
  const char* at = text.data();
  const char* end = at + text.size();
  pid_t pid = 0;
  while (true) {
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error != std::errc()) {
      return pids;
    }
    pids.push_back(pid);
    at = next == end ? end : next + 1;
  }
}

std::vector<pid_t> ListChildren() {
  constexpr std::size_t kListBytesMax = 1 << 20;
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const Result<std::string> text = ReadFile(thread.path().string() + "/children", kListBytesMax);
    if (text.ok()) {
      const std::vector<pid_t> found = ParsePids(*text);
      pids.insert(pids.end(), found.begin(), found.end());
    }
  }
  return pids;
}

}  // namespace

std::optional<EndedChild> FindEndedChild(TimePoint now) {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  EndedChild ended;
  ended.pid = info.si_pid;
  ended.at = now;
  ended.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
  ended.exit_code = ended.signal == 0 ? info.si_status : kExitSignalBase + ended.signal;
  return ended;
}

void ReapChild(pid_t pid) {
  LOCKSTEP_CHECK(::waitpid(pid, nullptr, WNOHANG) == pid, "process " + std::to_string(pid));
}

bool KillAllChildren(Deadline deadline, const std::vector<pid_t>& kept) {
  constexpr int kLookAgainMs = 5;  // killed processes vanish within about a millisecond
  while (true) {
    bool has_others = false;
    for (const pid_t pid : ListChildren()) {
      if (std::find(kept.begin(), kept.end(), pid) == kept.end()) {
        has_others = true;
        ::kill(pid, SIGKILL);
      }
    }
    while (const std::optional<EndedChild> ended = FindEndedChild(SteadyNow())) {
      ReapChild(ended->pid);
    }
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) {
      return true;
    }
    if (!has_others && !kept.empty()) {
      return true;
    }
    if (deadline.HasPassed(SteadyNow())) {
      return false;
    }
    ::poll(nullptr, 0, kLookAgainMs);
  }
}

SubreaperScope::SubreaperScope() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

SubreaperScope::~SubreaperScope() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace lockstep::runtime
