#include "operator/local/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace lockstep::control {
namespace {

// Half way up the scale of oom_score_adj: training goes before the user's editor does.
constexpr char kOomScoreAdjustment[] = "500";

// Where a child failed between fork and exec, sent through a pipe that exec closes.
enum class SpawnStage : int { kSetup, kWorkingDir, kExec };

struct SpawnFailure {
  SpawnStage stage = SpawnStage::kSetup;
  int error_number = 0;
};

bool IsExecutableFile(const std::string& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string InFolder(const std::string& folder, std::string_view name) {
  return name.starts_with('/') ? std::string(name) : folder + "/" + std::string(name);
}

// execvp's search, against the PATH of the program's own environment instead of ours. A name that
// exists but may not be executed is remembered, because "not executable" explains more than "not
// found".
Result<std::string> FindProgram(const SpawnRequest& request) {
  const std::string& name = request.argv.front();
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(InFolder(request.working_dir, name));
  } else {
    const auto path = request.env.find("PATH");
    std::string_view rest = path == request.env.end() ? std::string_view() : path->second;
    while (!rest.empty()) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      candidates.push_back(InFolder(request.working_dir, rest.substr(0, colon)) + "/" + name);
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
  }
  for (const std::string& candidate : candidates) {
    if (IsExecutableFile(candidate)) {
      return candidate;
    }
  }
  for (const std::string& candidate : candidates) {
    if (::access(candidate.c_str(), F_OK) == 0) {
      return Error(ErrorCode::kInvalidArgument,
                   "cannot start \"" + name + "\": " + candidate + " is not an executable file");
    }
  }
  const bool searched = name.find('/') == std::string::npos;
  return Error(ErrorCode::kNotFound,
               "cannot start \"" + name + "\": no such file" + (searched ? " in PATH" : ""));
}

// Only calls that are safe between fork and exec in a process with threads.
[[noreturn]] void Fail(int report_fd, SpawnStage stage) {
  const SpawnFailure failure{stage, errno};
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &failure, sizeof failure);
  ::_exit(127);
}

struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* working_dir;
  int output_fd;
  int null_fd;
  int report_fd;
  pid_t parent;
};

void RaiseOomScore() {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    // Refused in some sandboxes; training works without.
    [[maybe_unused]] const ssize_t written =
        ::write(fd, kOomScoreAdjustment, sizeof kOomScoreAdjustment - 1);
    ::close(fd);
  }
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::setsid();
  // The parent may have died before the request was in place; then nobody would send the signal.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != plan.parent) {
    Fail(plan.report_fd, SpawnStage::kSetup);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  RaiseOomScore();
  if (::dup2(plan.null_fd, STDIN_FILENO) < 0 || ::dup2(plan.output_fd, STDOUT_FILENO) < 0 ||
      ::dup2(plan.output_fd, STDERR_FILENO) < 0) {
    Fail(plan.report_fd, SpawnStage::kSetup);
  }
  // Descriptors that whoever started us left open stay ours.
  ::syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  if (::chdir(plan.working_dir) != 0) {
    Fail(plan.report_fd, SpawnStage::kWorkingDir);
  }
  ::execve(plan.program, plan.argv, plan.envp);
  Fail(plan.report_fd, SpawnStage::kExec);
}

Error DescribeFailure(const SpawnFailure& failure, const SpawnRequest& request) {
  const std::string start = "cannot start \"" + request.argv.front() + "\": ";
  const std::string why = std::strerror(failure.error_number);
  switch (failure.stage) {
    case SpawnStage::kWorkingDir:
      return Error(ErrorCode::kInvalidArgument,
                   start + "working folder " + request.working_dir + ": " + why);
    case SpawnStage::kExec:
      // ENOENT here is the interpreter named by a script's first line.
      return failure.error_number == ENOMEM || failure.error_number == EAGAIN
                 ? Error(ErrorCode::kResourceExhausted, start + why)
                 : Error(ErrorCode::kInvalidArgument, start + why);
    case SpawnStage::kSetup:
      break;
  }
  return SystemError(failure.error_number, start + "preparing the process");
}

std::vector<char*> PointersOf(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts->size() + 1);
  for (std::string& text : *texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Waits until the child has either executed its program (the pipe closes) or failed to.
Result<SpawnedProcess> AwaitExec(SpawnedProcess child,
                                 const UniqueFd& report,
                                 const SpawnRequest& request) {
  SpawnFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof failure) {
    return child;
  }
  // It is about to leave by _exit; waiting for that is bounded.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED) < 0 && errno == EINTR) {
  }
  return DescribeFailure(failure, request);
}

}  // namespace

Result<SpawnedProcess> SpawnProcess(const SpawnRequest& request) {
  LOCKSTEP_CHECK(!request.argv.empty(), "a program without a name");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string program, FindProgram(request));
  std::vector<std::string> argv_texts = request.argv;
  std::vector<std::string> env_texts;
  for (const auto& [name, value] : request.env) {
    env_texts.push_back(name + "=" + value);
  }
  const std::vector<char*> argv = PointersOf(&argv_texts);
  const std::vector<char*> envp = PointersOf(&env_texts);
  const UniqueFd null_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int report_fds[2] = {-1, -1};
  if (!null_fd.is_open() || ::pipe2(report_fds, O_CLOEXEC) != 0) {
    return SystemError(errno, "preparing to start a process");
  }
  const UniqueFd report_read(report_fds[0]);
  UniqueFd report_write(report_fds[1]);
  const ChildPlan plan{program.c_str(),
                       argv.data(),
                       envp.data(),
                       request.working_dir.c_str(),
                       request.output_fd,
                       null_fd.get(),
                       report_write.get(),
                       ::getpid()};
  SpawnedProcess child;
  child.pid = ::fork();
  if (child.pid < 0) {
    return SystemError(errno, "fork");
  }
  if (child.pid == 0) {
    RunChild(plan);
  }
  // Not reaped yet, so the pid is still this child's.
  child.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  LOCKSTEP_CHECK(child.pidfd.is_open(), std::string("pidfd_open: ") + std::strerror(errno));
  report_write.Reset();
  return AwaitExec(std::move(child), report_read, request);
}

Result<ProcessExit> Reap(int pidfd) {
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info, WEXITED);
  } while (result < 0 && errno == EINTR);
  if (result != 0) {
    return SystemError(errno, "waiting for a process");
  }
  if (info.si_code == CLD_EXITED) {
    return ProcessExit{info.si_status, 0};
  }
  return ProcessExit{128 + info.si_status, info.si_status};
}

}  // namespace lockstep::control
