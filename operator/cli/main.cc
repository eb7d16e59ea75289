#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "operator/cli/arguments.h"
#include "operator/cli/commands.h"

namespace lockstep::control {
namespace {

struct RunCommand {
  int operator()(const RunArguments& arguments) const { return RunRun(arguments); }

  int operator()(const ValidateArguments& arguments) const { return RunValidate(arguments); }

  int operator()(const RenderArguments& arguments) const { return RunRender(arguments); }

  int operator()(const ExplainArguments& arguments) const { return RunExplain(arguments); }

  int operator()(const PsArguments& arguments) const { return RunPs(arguments); }

  int operator()(const LogsArguments& arguments) const { return RunLogs(arguments); }

  int operator()(const StopArguments& arguments) const { return RunStop(arguments); }

  int operator()(const VersionArguments&) const {
    std::printf("%s\n", VersionText().c_str());
    return 0;
  }
};

int Main(const std::vector<std::string>& argv) {
  const auto parsed = ParseArguments(argv);
  if (const auto* end = std::get_if<ArgumentsEnd>(&parsed)) {
    std::fputs(end->text.c_str(), end->exit_code == 0 ? stdout : stderr);
    return end->exit_code;
  }
  return std::visit(RunCommand(), std::get<Arguments>(parsed));
}

}  // namespace
}  // namespace lockstep::control

int main(int argc, char** argv) {
  return lockstep::control::Main(std::vector<std::string>(argv, argv + argc));
}
