#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <variant>

#include "operator/cmd/flags.h"
#include "operator/cmd/json_logger.h"
#include "operator/cmd/operator_process.h"

namespace {

using lockstep::control::LogFormat;
using lockstep::control::OperatorFlags;

std::string EnvironmentOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::unique_ptr<lockstep::Logger> MakeLogger(const OperatorFlags& flags) {
  return flags.log_format == LogFormat::kJson ? lockstep::control::MakeJsonLogger(flags.log_level)
                                              : lockstep::MakeStderrLogger({flags.log_level, ""});
}

int Run(const OperatorFlags& flags) {
  const std::unique_ptr<lockstep::Logger> logger = MakeLogger(flags);
  auto signals = lockstep::StopSignals::Block();
  if (!signals.ok()) {
    logger->Error("cannot start", {{"error", signals.error().ToString()}});
    return 1;
  }
  auto process = lockstep::control::OperatorProcess::Start(
      flags,
      {EnvironmentOf("POD_NAME"), EnvironmentOf("POD_NAMESPACE"), EnvironmentOf("POD_UID")},
      logger.get());
  if (!process.ok()) {
    logger->Error("cannot start", {{"error", process.error().ToString()}});
    return 1;
  }
  (*process)->RunUntilSignal(&*signals);
  logger->Info("stopped");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = lockstep::control::ParseOperatorFlags(argc, argv);
  if (const auto* text = std::get_if<lockstep::control::PrintAndExit>(&parsed)) {
    (text->exit_code == 0 ? std::cout : std::cerr) << text->text;
    return text->exit_code;
  }
  return Run(std::get<OperatorFlags>(parsed));
}
