#include "operator/cli/terminal/find_runtime.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <sys/wait.h>

#include "common/base/io/socket_wait.h"
#include "common/base/io/unique_fd.h"
#include "common/base/printable.h"
#include "common/base/time.h"
#include "common/process/find_program.h"
#include "common/process/spawn.h"
#include "operator/cli/terminal/console.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kVersionStart = "lockstep-runtime ";
constexpr std::size_t kAnswerBytesMax = 100;                   // choice: of what is shown
constexpr Duration kAnswerTimeout = std::chrono::seconds(10);  // choice: it takes milliseconds

Result<std::string> Locate(const std::string& given) {
  if (!given.empty()) {
    return IsExecutableFile(given) ? Result<std::string>(std::filesystem::absolute(given).string())
                                   : Error(ErrorCode::kNotFound, given + " is not executable");
  }
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = (self.parent_path() / "lockstep-runtime").string();
  if (!error && IsExecutableFile(beside)) {
    return beside;
  }
  const char* const path = std::getenv("PATH");
  const auto found = FindProgram("lockstep-runtime", path == nullptr ? kSearchPathDefault : path);
  if (!found.ok()) {
    return Error(ErrorCode::kNotFound,
                 "lockstep-runtime is neither in this program's folder nor in PATH; set --runtime");
  }
  return std::filesystem::absolute(*found).string();
}

// What can be read of `fd` until it ends, `deadline` passes or it is enough.
std::string ReadAnswer(int fd, Deadline deadline) {
  std::string answer;
  while (answer.size() < kAnswerBytesMax && WaitForSocket(fd, POLLIN, deadline).ok()) {
    std::array<char, kAnswerBytesMax> block{};
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got == 0 || (got < 0 && errno != EINTR)) {
      break;
    }
    answer.append(block.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  return answer;
}

// The beginning of what `program --version` prints.
Result<std::string> AskForVersion(const std::string& program,
                                  const std::map<std::string, std::string>& environment) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return SystemError(errno, "creating a pipe for " + program + " --version");
  }
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  SpawnOptions options;
  options.program = program;
  options.arguments = {program, "--version"};
  options.environment = environment;
  options.output_fd = input.get();
  options.error_fd = input.get();
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t pid, Spawn(options));
  input.Reset();
  std::string answer = ReadAnswer(output.get(), Deadline::After(SteadyNow(), kAnswerTimeout));
  // Whatever it still does. Waiting for what SIGKILL ends is bounded.
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace

Result<std::string> FindRuntime(const std::string& given,
                                const std::map<std::string, std::string>& environment) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string found, Locate(given));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string answer, AskForVersion(found, environment));
  if (answer.starts_with(kVersionStart)) {
    return found;
  }
  return Error(ErrorCode::kInvalidArgument,
               found + " is not lockstep-runtime: with --version it prints \"" +
                   Printable(answer.substr(0, answer.find('\n'))) +
                   "\", expected \"lockstep-runtime\" and its version");
}

}  // namespace lockstep::control
