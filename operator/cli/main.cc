#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>
#include <variant>
#include <vector>

#include "operator/cli/arguments.h"
#include "operator/cli/commands.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/terminal/completion.h"

namespace lockstep::control {
namespace {

struct RunCommand {
  int operator()(const RunArguments& arguments) const { return RunRun(arguments); }

  int operator()(const ValidateArguments& arguments) const { return RunValidate(arguments); }

  int operator()(const RenderArguments& arguments) const { return RunRender(arguments); }

  int operator()(const ConvertArguments& arguments) const { return RunConvert(arguments); }

  int operator()(const ExplainArguments& arguments) const { return RunExplain(arguments); }

  int operator()(const PsArguments& arguments) const { return RunPs(arguments); }

  int operator()(const LogsArguments& arguments) const { return RunLogs(arguments); }

  int operator()(const StopArguments& arguments) const { return RunStop(arguments); }

  int operator()(const CompletionArguments& arguments) const {
    std::fputs(CompletionScript(arguments.shell, DescribeCommands()).c_str(), stdout);
    return 0;
  }

  int operator()(const VersionArguments&) const {
    std::printf("%s\n", VersionText().c_str());
    return 0;
  }
};

// A file that is opened later would get the number of a closed stream, and what is printed. What is
// printed into a closed standard output must fail: it was not told.
void OpenClosedStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) {  // those below are open: the lowest free number is this one
      ::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
    }
  }
}

// What could not be printed was not told: that is no success.
int CheckPrinted(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
    return exit_code;
  }
  std::fprintf(stderr, "lockstep: writing to standard output: %s\n", std::strerror(errno));
  return exit_code == kCliSucceeded ? kCliFailed : exit_code;
}

int Main(const std::vector<std::string>& argv) {
  const auto parsed = ParseArguments(argv);
  if (const auto* end = std::get_if<ArgumentsEnd>(&parsed)) {
    std::fputs(end->text.c_str(), end->exit_code == 0 ? stdout : stderr);
    return CheckPrinted(end->exit_code);
  }
  return CheckPrinted(std::visit(RunCommand(), std::get<Arguments>(parsed)));
}

// The machine may refuse memory or a thread at any line: what was begun is undone on the way here.
int MainInShortage(const std::vector<std::string>& argv) {
  try {
    return Main(argv);
  } catch (const std::bad_alloc&) {
    std::fputs("lockstep: the machine has no memory left\n", stderr);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "lockstep: the machine cannot start another thread: %s\n", error.what());
  } catch (const std::runtime_error& error) {  // a library's: no file descriptor for Asio
    std::fprintf(stderr, "lockstep: %s\n", error.what());
  }
  return kCliFailed;
}

}  // namespace
}  // namespace lockstep::control

int main(int argc, char** argv) {
  lockstep::control::OpenClosedStreams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write, as a full disk is
  return lockstep::control::MainInShortage(std::vector<std::string>(argv, argv + argc));
}
