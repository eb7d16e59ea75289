#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <signal.h>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "common/base/printable.h"
#include "common/base/time.h"
#include "operator/cli/commands.h"
#include "operator/cli/run_folder/log_reader.h"
#include "operator/cli/run_folder/run_directory.h"
#include "operator/cli/run_folder/run_list.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/terminal/console.h"

namespace lockstep::control {
namespace {

// Choice: what people feel as at once.
constexpr Duration kLookInterval = std::chrono::milliseconds(100);

// Prints lines as they come, or of each pod the newest ones where only so many are wanted.
class LineWindow {
 public:
  LineWindow(int64_t lines_max, bool has_many_pods)
      : lines_max_(lines_max), has_many_pods_(has_many_pods) {}

  void Add(const std::string& pod, std::string_view line) {
    const std::string text = (has_many_pods_ ? "[" + pod + "] " : "") + Printable(line);
    if (lines_max_ == 0) {
      std::printf("%s\n", text.c_str());
      return;
    }
    std::deque<std::string>& lines = lines_[pod];
    lines.push_back(text);
    if (lines.size() > static_cast<std::size_t>(lines_max_)) {
      lines.pop_front();
    }
  }

  void Print() {
    for (const auto& [pod, lines] : lines_) {
      for (const std::string& line : lines) {
        std::printf("%s\n", line.c_str());
      }
    }
    std::fflush(stdout);
    lines_.clear();
    lines_max_ = 0;  // what comes later is wanted whole
  }

 private:
  int64_t lines_max_;  // 0: all
  bool has_many_pods_;
  std::map<std::string, std::deque<std::string>> lines_;  // by pod
};

}  // namespace

int RunPs(const PsArguments& arguments) {
  const std::string parent = arguments.folder.empty() ? "runs" : arguments.folder;
  const auto runs = RunsBelow(parent);
  if (runs.empty()) {
    // A folder that was named and is none is a mistake; runs/ that is not there yet is none.
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(parent, error);
    return is_folder || arguments.folder.empty() ? Complain(kCliSucceeded, WhyNoRuns(parent))
                                                 : Complain(kCliUsage, parent + " is not a folder");
  }
  std::fputs(FormatRuns(runs).c_str(), stdout);
  return kCliSucceeded;
}

int RunLogs(const LogsArguments& arguments) {
  const auto run = FindRun(arguments.run);
  if (!run.ok()) {
    return Complain(kCliUsage, run.error().message());
  }
  LogReader reader(run->directory, arguments.pod);
  const auto pods = reader.Pods();
  if (pods.empty() && !arguments.pod.empty()) {
    std::string names;
    for (const std::string& pod : LogReader(run->directory, "").Pods()) {
      names += (names.empty() ? "" : ", ") + pod;
    }
    return Complain(kCliUsage,
                    "no pod " + arguments.pod + " in " + run->directory + "; " +
                        (names.empty() ? "no pod has a log" : "its pods are " + names));
  }
  LineWindow window(arguments.tail, arguments.pod.empty() || pods.size() > 1);
  const auto add = [&window](const std::string& pod, std::string_view line) {
    window.Add(pod, line);
  };
  while (arguments.follow && HolderOf(run->directory) && std::ferror(stdout) == 0) {
    reader.ReadNew(false, add);
    window.Print();
    std::this_thread::sleep_for(kLookInterval);
  }
  reader.ReadNew(true, add);
  window.Print();
  return kCliSucceeded;
}

int RunStop(const StopArguments& arguments) {
  const auto run = FindRun(arguments.run);
  if (!run.ok()) {
    return Complain(kCliUsage, run.error().message());
  }
  if (run->pid == 0) {
    return Complain(kCliSucceeded, run->directory + " is not running: " + StateOf(*run));
  }
  const Deadline deadline = Deadline::After(SteadyNow(), arguments.timeout);
  for (int asked = 0; asked < (arguments.kill ? 2 : 1); ++asked) {
    if (::kill(run->pid, SIGTERM) != 0) {
      if (errno == ESRCH) {
        break;  // who was asked before needs no second word
      }
      return Complain(
          kCliFailed,
          "sending SIGTERM to process " + std::to_string(run->pid) + ": " + std::strerror(errno));
    }
    std::this_thread::sleep_for(kLookInterval);  // two signals at once would count as one
  }
  while (HolderOf(run->directory)) {
    if (deadline.HasPassed(SteadyNow())) {
      return Complain(kCliFailed,
                      run->directory + " still runs after " + FormatDuration(arguments.timeout) +
                          "; to stop it without a checkpoint, use --kill");
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  const auto ended = FindRun(arguments.run);
  std::printf("%s %s\n", run->directory.c_str(), ended.ok() ? StateOf(*ended).c_str() : "ended");
  return kCliSucceeded;
}

}  // namespace lockstep::control
