#include "trainer-runtime/supervisor/child_process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace lockstep::runtime {
namespace {

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return SystemError(errno, "make a pipe");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool IsRegularFile(const std::string& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Null-terminated, pointing into `strings`, as execve wants it.
std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& text : *strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// What the child process needs, made ready before the fork: after it, in a process that may have
// had other threads, only system calls are safe.
struct ChildPlan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int input;
  int output;
  int error;
  int failure;  // takes errno when the program cannot be started
};

[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) {
    ::_exit(1);  // the parent was gone before the request took effect
  }
  if (::dup2(plan.input, STDIN_FILENO) >= 0 && ::dup2(plan.output, STDOUT_FILENO) >= 0 &&
      ::dup2(plan.error, STDERR_FILENO) >= 0) {
    ::execve(plan.program, plan.arguments, plan.environment);
  }
  const int reason = errno;
  static_cast<void>(::write(plan.failure, &reason, sizeof(reason)) == 0);
  ::_exit(1);
}

Error StartError(const std::string& program, int reason) {
  switch (reason) {
    case ENOENT:  // the file itself was there a moment ago
      return Error(ErrorCode::kNotFound,
                   "cannot run " + program + ": it or the interpreter it names does not exist");
    case ENOEXEC:
      return Error(ErrorCode::kInvalidArgument,
                   "cannot run " + program +
                       ": not a program of this machine, and no script with a #! line");
    case EACCES:
    case EPERM:
    case E2BIG:
    case ELOOP:
    case ENOTDIR:
      return Error(ErrorCode::kInvalidArgument,
                   SystemError(reason, "cannot run " + program).message());
    default:
      return SystemError(reason, "cannot run " + program);
  }
}

// The errno of a start that failed; 0 when the program runs: the pipe then closes with exec.
int ReadFailure(int fd) {
  int reason = 0;
  ssize_t count = 0;
  do {
    count = ::read(fd, &reason, sizeof(reason));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(reason) ? reason : 0;
}

Status MakeNonBlocking(int fd) {
  if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
    return SystemError(errno, "make a pipe non-blocking");
  }
  return OkStatus();
}

}  // namespace

Result<std::string> FindProgram(const std::string& name, std::string_view search_path) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    for (std::size_t begin = 0; begin <= search_path.size();) {
      const std::size_t end = std::min(search_path.find(':', begin), search_path.size());
      const std::string folder(search_path.substr(begin, end - begin));
      candidates.push_back((folder.empty() ? "." : folder) + "/" + name);
      begin = end + 1;
    }
  }
  std::string unusable;
  for (const std::string& path : candidates) {
    if (IsRegularFile(path) && ::access(path.c_str(), X_OK) == 0) {
      return path;
    }
    if (unusable.empty() && ::access(path.c_str(), F_OK) == 0) {
      unusable = path;
    }
  }
  if (!unusable.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "cannot run " + unusable + ": expected a file with execute permission");
  }
  return Error(ErrorCode::kNotFound,
               "cannot run " + name + ": no such file" +
                   (candidates.size() == 1 && candidates.front() == name
                        ? ""
                        : " in PATH (" + std::string(search_path) + ")"));
}

Result<ChildProcess> SpawnChild(const ChildOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe failure, MakePipe());
  LOCKSTEP_RETURN_IF_ERROR(MakeNonBlocking(output.reader.get()));
  LOCKSTEP_RETURN_IF_ERROR(MakeNonBlocking(error.reader.get()));
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input.is_open()) {
    return SystemError(errno, "open /dev/null");
  }
  std::vector<std::string> arguments = options.command;
  std::vector<std::string> environment;
  for (const auto& [name, value] : options.environment) {
    environment.push_back(name + "=" + value);
  }
  const std::vector<char*> argument_pointers = Pointers(&arguments);
  const std::vector<char*> environment_pointers = Pointers(&environment);
  const ChildPlan plan{options.program.c_str(),
                       argument_pointers.data(),
                       environment_pointers.data(),
                       ::getpid(),
                       input.get(),
                       output.writer.get(),
                       error.writer.get(),
                       failure.writer.get()};
  const pid_t pid = ::fork();
  if (pid == 0) {
    RunChild(plan);
  }
  if (pid < 0) {
    // EAGAIN and ENOMEM: no room now, perhaps later.
    return Error(ErrorCode::kResourceExhausted, SystemError(errno, "start a process").message());
  }
  ::setpgid(pid, pid);  // in both processes, so that neither waits for the other; one may fail
  failure.writer.Reset();
  if (const int reason = ReadFailure(failure.reader.get()); reason != 0) {
    ::waitpid(pid, nullptr, 0);
    return StartError(options.program, reason);
  }
  return ChildProcess{pid, std::move(output.reader), std::move(error.reader)};
}

}  // namespace lockstep::runtime
