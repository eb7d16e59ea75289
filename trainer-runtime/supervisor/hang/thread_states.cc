#include "trainer-runtime/supervisor/hang/thread_states.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/base/io/file.h"
#include "common/process/process_stat.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kFileBytesMax = 16 * 1024;

// The first line of a file of /proc; empty where it cannot be read.
std::string LineOf(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kFileBytesMax);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

std::vector<pid_t> ThreadsOf(const std::string& folder) {
  std::vector<pid_t> threads;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc()) {
      threads.push_back(thread);
    }
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

ThreadState StateOf(pid_t thread, const std::string& folder) {
  ThreadState state;
  state.thread = thread;
  state.name = LineOf(folder + "/comm");
  const std::optional<ProcessStat> stat = ParseProcessStat(LineOf(folder + "/stat"), {});
  state.state = stat.has_value() ? stat->state : '?';
  const std::string function = LineOf(folder + "/wchan");
  state.waits_in = function == "0" ? "" : function;  // it runs, or who asks may not know
  return state;
}

}  // namespace

std::vector<ThreadState> ReadThreadStates(pid_t pid, std::size_t count_max) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::vector<pid_t> threads = ThreadsOf(folder);
  // Numbers begin anew at some point: the main thread may not be the lowest.
  std::stable_partition(threads.begin(), threads.end(), [pid](pid_t one) { return one == pid; });
  threads.resize(std::min(threads.size(), count_max));
  std::vector<ThreadState> states;
  for (const pid_t thread : threads) {
    states.push_back(StateOf(thread, folder + "/" + std::to_string(thread)));
  }
  return states;
}

std::string DescribeThreadState(const ThreadState& state) {
  const std::string where = state.waits_in.empty() ? "" : " in " + state.waits_in;
  switch (state.state) {
    case 'R':
      return "runs";
    case 'S':
    case 'I':
      return "sleeps" + where;
    case 'D':
      return "waits for a device" + where;
    case 'T':
      return "is stopped by a signal";
    case 't':
      return "is stopped by a debugger";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return "is in an unknown state";
  }
}

bool CatchesSignal(pid_t pid, int signal) {
  constexpr std::string_view kCaught = "\nSigCgt:";
  const Result<std::string> status =
      ReadFile("/proc/" + std::to_string(pid) + "/status", kFileBytesMax);
  const std::size_t at = status.ok() ? status->find(kCaught) : std::string::npos;
  if (at == std::string::npos) {
    return false;
  }
  const std::size_t begin = status->find_first_not_of(" \t", at + kCaught.size());
  uint64_t mask = 0;
  constexpr int kHexadecimal = 16;
  if (begin == std::string::npos ||
      std::from_chars(status->data() + begin, status->data() + status->size(), mask, kHexadecimal)
              .ec != std::errc()) {
    return false;
  }
  return ((mask >> (signal - 1)) & 1) != 0;
}

}  // namespace lockstep::runtime
