#include "common/process/spawn.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/base/check.h"
#include "common/base/io/exec_string.h"
#include "common/base/io/unique_fd.h"

namespace lockstep {
namespace {

// Where a child failed between fork and exec, sent through a pipe that exec closes.
enum class SpawnStage : int { kSetup, kWorkingDirectory, kExec };

struct SpawnFailure {
  SpawnStage stage = SpawnStage::kSetup;
  int error_number = 0;
};

// What the child process needs, made ready before the fork: after it, in a process that may have
// had other threads, only system calls are safe.
struct ChildPlan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* working_directory;     // null: stay
  const char* oom_score_adjustment;  // null: as it is
  std::optional<uint64_t> lineage_mark;
  bool leads_session;
  pid_t parent;
  int input_fd;
  int output_fd;
  int error_fd;
  int kept_fd;
  int report_fd;  // takes a SpawnFailure
};

[[noreturn]] void Fail(const ChildPlan& plan, SpawnStage stage) {
  const SpawnFailure failure{stage, errno};
  [[maybe_unused]] const ssize_t written = ::write(plan.report_fd, &failure, sizeof failure);
  ::_exit(127);
}

void AdjustOomScore(const char* adjustment) {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    // Refused in some sandboxes; programs work without.
    [[maybe_unused]] const ssize_t written = ::write(fd, adjustment, std::strlen(adjustment));
    ::close(fd);
  }
}

// Refused where somebody has lowered the hard limit; programs run without.
void SetLineageMark(uint64_t mark) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_LOCKS, &limit) == 0) {
    limit.rlim_cur = mark;
    [[maybe_unused]] const int refused = ::setrlimit(RLIMIT_LOCKS, &limit);
  }
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  // The parent may have died before the request was in place; then nobody would send the signal.
  if ((plan.leads_session ? ::setsid() < 0 : ::setpgid(0, 0) < 0) ||
      ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != plan.parent) {
    Fail(plan, SpawnStage::kSetup);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.oom_score_adjustment != nullptr) {
    AdjustOomScore(plan.oom_score_adjustment);
  }
  if (plan.lineage_mark) {
    SetLineageMark(*plan.lineage_mark);
  }
  if (::dup2(plan.input_fd, STDIN_FILENO) < 0 || ::dup2(plan.output_fd, STDOUT_FILENO) < 0 ||
      ::dup2(plan.error_fd, STDERR_FILENO) < 0) {
    Fail(plan, SpawnStage::kSetup);
  }
  // Descriptors that whoever started us left open stay ours.
  ::syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  if (plan.kept_fd >= 0 && ::fcntl(plan.kept_fd, F_SETFD, 0) != 0) {
    Fail(plan, SpawnStage::kSetup);
  }
  if (plan.working_directory != nullptr && ::chdir(plan.working_directory) != 0) {
    Fail(plan, SpawnStage::kWorkingDirectory);
  }
  ::execve(plan.program, plan.arguments, plan.environment);
  Fail(plan, SpawnStage::kExec);
}

// Which text the kernel does not take, or how much all of them are.
std::string DescribeTooLong(const SpawnOptions& options) {
  const std::string most = ", but Linux accepts at most " + std::to_string(kExecStringBytesMax);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < options.arguments.size(); ++i) {
    const std::size_t bytes = options.arguments[i].size();
    if (bytes > kExecStringBytesMax) {
      return "argument " + std::to_string(i) + " has " + std::to_string(bytes) + " bytes" + most;
    }
    sum += bytes + 1;
  }
  for (const auto& [name, value] : options.environment) {
    const std::size_t bytes = name.size() + 1 + value.size();
    if (bytes > kExecStringBytesMax) {
      return "environment variable " + name + " has " + std::to_string(bytes) +
             " bytes with its name" + most;
    }
    sum += bytes + 1;
  }
  return "its arguments and environment variables have " + std::to_string(sum) +
         " bytes together, more than this system accepts (a quarter of ulimit -s)";
}

Error ExecError(const std::string& start, int reason, const SpawnOptions& options) {
  switch (reason) {
    case E2BIG:
      return Error(ErrorCode::kInvalidArgument, start + DescribeTooLong(options));
    case ENOENT:  // the file itself was there a moment ago
      return Error(ErrorCode::kNotFound,
                   start + "the file, or the interpreter that it names, does not exist");
    case ENOEXEC:
      return Error(ErrorCode::kInvalidArgument,
                   start + "not a program for this machine, and not a script with a #! line");
    case EAGAIN:
    case ENOMEM:
    case ENFILE:
    case EMFILE:
      return Error(ErrorCode::kResourceExhausted, start + std::strerror(reason));
    case EIO:
      return Error(ErrorCode::kIo, start + std::strerror(reason));
    default:
      return Error(ErrorCode::kInvalidArgument, start + std::strerror(reason));
  }
}

Error DescribeFailure(const SpawnFailure& failure, const SpawnOptions& options) {
  const std::string start = "cannot start \"" + options.arguments.front() + "\": ";
  switch (failure.stage) {
    case SpawnStage::kWorkingDirectory:
      return Error(ErrorCode::kInvalidArgument,
                   start + "working directory " + options.working_directory + ": " +
                       std::strerror(failure.error_number));
    case SpawnStage::kExec:
      return ExecError(start, failure.error_number, options);
    case SpawnStage::kSetup:
      break;
  }
  return SystemError(failure.error_number, start + "preparing the process");
}

// Null-terminated, pointing into `strings`, as execve wants it.
std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings->size() + 1);
  for (std::string& text : *strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Waits until the child has either executed its program (the pipe closes) or failed to.
Result<pid_t> AwaitExec(pid_t pid, int report_fd, const SpawnOptions& options) {
  SpawnFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report_fd, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof failure) {
    return pid;
  }
  // It is about to leave by _exit; waiting for that is bounded.
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return DescribeFailure(failure, options);
}

}  // namespace

Result<pid_t> Spawn(const SpawnOptions& options) {
  LOCKSTEP_CHECK(!options.arguments.empty(), "the program has no name");
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment;
  for (const auto& [name, value] : options.environment) {
    environment.push_back(name + "=" + value);
  }
  const std::vector<char*> argument_pointers = Pointers(&arguments);
  const std::vector<char*> environment_pointers = Pointers(&environment);
  const std::string oom_score =
      options.oom_score_adjustment ? std::to_string(*options.oom_score_adjustment) : "";
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int report_fds[2] = {-1, -1};
  if (!input.is_open() || ::pipe2(report_fds, O_CLOEXEC) != 0) {
    return SystemError(errno, "preparing to start a process");
  }
  const UniqueFd report_read(report_fds[0]);
  UniqueFd report_write(report_fds[1]);
  const ChildPlan plan{
      options.program.c_str(),
      argument_pointers.data(),
      environment_pointers.data(),
      options.working_directory.empty() ? nullptr : options.working_directory.c_str(),
      oom_score.empty() ? nullptr : oom_score.c_str(),
      options.lineage_mark,
      options.leads_session,
      ::getpid(),
      options.input_fd >= 0 ? options.input_fd : input.get(),
      options.output_fd,
      options.error_fd,
      options.kept_fd,
      report_write.get()};
  const pid_t pid = ::fork();
  if (pid < 0) {
    // EAGAIN and ENOMEM: no room now, perhaps later.
    return Error(ErrorCode::kResourceExhausted, SystemError(errno, "start a process").message());
  }
  if (pid == 0) {
    RunChild(plan);
  }
  report_write.Reset();
  return AwaitExec(pid, report_read.get(), options);
}

}  // namespace lockstep
