#include <cstdio>
#include <variant>

#include "operator/replay/replay_arguments.h"
#include "operator/replay/report.h"

namespace lockstep::control {
namespace {

constexpr int kOutputLost = 1;
constexpr int kBadInput = 2;
constexpr int kWrongAnswer = 3;

// Whether all of it has been written.
bool Print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

struct RunReplay {
  int operator()(const ReplayHelp& help) const {
    if (help.exit_code != 0) {
      std::fputs(help.text.c_str(), stderr);
      return help.exit_code;
    }
    return Print(help.text) ? 0 : kOutputLost;
  }

  template <typename Arguments>
  int operator()(const Arguments& arguments) const {
    const Result<Json> report = ReplayAndReport(arguments, SystemClock());
    if (!report.ok()) {
      std::fprintf(stderr, "%s\n", report.error().ToString().c_str());
      return report.error().code() == ErrorCode::kInternal ? kWrongAnswer : kBadInput;
    }
    if (!Print(DumpJsonPretty(*report) + "\n")) {
      return kOutputLost;
    }
    return report->value("firstDifference", Json()).is_null() ? 0 : kWrongAnswer;
  }
};

}  // namespace
}  // namespace lockstep::control

int main(int argc, char** argv) {
  return std::visit(lockstep::control::RunReplay(),
                    lockstep::control::ParseReplayArguments(argc, argv));
}
