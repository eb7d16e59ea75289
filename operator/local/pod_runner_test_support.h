#pragma once

#include <charconv>
#include <chrono>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "common/base/io/file.h"
#include "operator/local/pod_processes.h"
#include "operator/local/pod_runner.h"

namespace lockstep::control {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

inline constexpr auto kPatience = seconds(20);  // for a loaded machine; nothing here takes a second
inline constexpr Duration kForever = std::chrono::hours(1);

inline std::string MakeFolder() {
  std::string pattern = ::testing::TempDir() + "cluster-XXXXXX";
  LOCKSTEP_CHECK(::mkdtemp(pattern.data()) != nullptr, pattern);
  return pattern;
}

inline std::string ReadText(const std::string& path) {
  const auto text = ReadFile(path, 1 << 20);
  return text.ok() ? *text : "";
}

inline pid_t ParsePid(const std::string& text) {
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

// Whether the process is alive; a zombie that waits for its reaper is not.
inline bool IsAlive(pid_t pid) {
  for (const ProcessStat& entry : ReadProcessStats()) {
    if (entry.pid == pid) {
      return !HasEnded(entry);
    }
  }
  return false;
}

// Waits until `condition` holds; looks every few milliseconds for things that send no event.
template <typename Condition>
bool Eventually(Condition condition) {
  const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
  while (!condition()) {
    if (deadline.HasPassed(SteadyNow())) {
      return false;
    }
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// Whether exits can be forced here at all; a container's seccomp filter may forbid tracing. Asks
// the kernel itself, so that a defect of ours is a failure and never a skip.
inline bool CanTraceChildren() {
#if defined(__x86_64__)
  const pid_t child = ::fork();
  LOCKSTEP_CHECK(child >= 0, "fork");
  if (child == 0) {
    for (;;) {
      ::pause();
    }
  }
  const bool can_trace = ::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) == 0;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return can_trace;
#else
  return false;
#endif
}

// A program that leaves session, environment and parent behind, as daemons do, and says its number
// in the file "hidden".
inline constexpr std::string_view kHiddenDaemon =
    "(env -i /usr/bin/setsid /bin/sh -c 'echo $$ > hidden.part; /bin/mv hidden.part hidden; "
    "exec /bin/sleep 1000 > /dev/null 2>&1' &); ";

// Holds the warnings.
class WarningLogger : public Logger {
 public:
  void Log(LogLevel level, std::string_view message, LogFields) override {
    if (level == LogLevel::kWarn) {
      warnings_.emplace_back(message);
    }
  }

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<std::string> warnings_;
};

// A child of this process that goes by that name; 0 if there is none.
inline pid_t ChildNamed(const std::string& name) {
  pid_t child = 0;
  EXPECT_TRUE(Eventually([&] {
    for (const ProcessStat& entry : ReadProcessStats()) {
      const std::string comm = ReadText("/proc/" + std::to_string(entry.pid) + "/comm");
      child = entry.parent == ::getpid() && comm == name + "\n" ? entry.pid : child;
    }
    return child != 0;
  }));
  return child;
}

class PodRunnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = MakeFolder();
    PodRunnerOptions options;
    options.directory = folder_;
    options.manifest_directory = folder_;
    options.base_environment = {{"PATH", "/usr/bin:/bin"}};
    options.termination_file_variable = "TERMINATION_FILE";
    options.on_line = [this](const kube::Pod& pod, std::string_view line) {
      lines_.push_back(pod.name + ": " + std::string(line));
    };
    cluster_ = PodRunner::Start(std::move(options), logger_.get()).value();
  }

  void TearDown() override {
    cluster_.reset();
    std::filesystem::remove_all(folder_);
  }

  static kube::Pod ShellPod(const std::string& name, const std::string& script) {
    kube::Pod pod;
    pod.name = name;
    pod.spec.container.command = {"sh", "-c", script};
    return pod;
  }

  void Create(kube::Pod pod) {
    const Status created = cluster_->CreatePod(std::move(pod), SteadyNow());
    ASSERT_TRUE(created.ok()) << created.error().ToString();
  }

  // Runs the cluster until the event comes; events before it are dropped.
  kube::Pod Await(const std::string& name, PodChange change) {
    const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
    while (!deadline.HasPassed(SteadyNow())) {
      cluster_->Process(SteadyNow());
      for (PodEvent& event : cluster_->TakeEvents()) {
        pending_.push_back(std::move(event));
      }
      while (!pending_.empty()) {
        const PodEvent event = pending_.front();
        pending_.erase(pending_.begin());
        if (event.pod.name == name && event.change == change) {
          return event.pod;
        }
      }
      pollfd entry{cluster_->fd(), POLLIN, 0};
      const auto next = cluster_->NextDeadline(SteadyNow());
      const Deadline wake = next ? Deadline::At(*next) : Deadline::After(SteadyNow(), seconds(1));
      ::poll(&entry, 1, wake.RemainingMilliseconds(SteadyNow()));
    }
    ADD_FAILURE() << "no such event of pod " << name;
    return kube::Pod();
  }

  kube::ContainerTermination RunToEnd(const std::string& script) {
    Create(ShellPod("pod", script));
    return Await("pod", PodChange::kEnded)
        .status.termination.value_or(kube::ContainerTermination());
  }

  // The content of a file that a pod writes, once it is there.
  std::string AwaitFile(const std::string& path) {
    EXPECT_TRUE(Eventually([this, &path] {
      cluster_->Process(SteadyNow());
      return !ReadText(path).empty();
    })) << path;
    return ReadText(path);
  }

  // A file where programs start.
  std::string HereFile(const std::string& name) const { return folder_ + "/" + name; }

  std::string PodFile(const std::string& pod, const std::string& name) const {
    return folder_ + "/pods/" + pod + "/" + name;
  }

  std::string folder_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<std::string> lines_;
  std::vector<PodEvent> pending_;
  std::unique_ptr<PodRunner> cluster_;
};

}  // namespace lockstep::control
