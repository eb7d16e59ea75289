#include "operator/cli/run_log.h"

#include <memory>
#include <utility>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include "operator/cli/console.h"

namespace lockstep::control {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

class RunLog final : public Logger {
 public:
  RunLog(spdlog::sink_ptr file, bool is_verbose, Console* console)
      : logger_("run", std::move(file)), is_verbose_(is_verbose), console_(console) {
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-5l %v", spdlog::pattern_time_type::utc);
    logger_.set_level(spdlog::level::debug);
    logger_.flush_on(spdlog::level::debug);
    // A full disk is no reason to stop a run; the console has said what matters.
    logger_.set_error_handler([](const std::string&) {});
  }

  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    const std::string text = FormatLogText(message, fields);
    logger_.log(ToSpdlog(level), spdlog::string_view_t(text));
    if (is_verbose_ || level == LogLevel::kWarn || level == LogLevel::kError) {
      console_->Print(Printable("lockstep: " + text));
    }
  }

 private:
  spdlog::logger logger_;
  bool is_verbose_;
  Console* console_;
};

}  // namespace

Result<std::unique_ptr<Logger>> MakeRunLog(const std::string& path,
                                           bool is_verbose,
                                           Console* console) {
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_st>(path);
    return std::unique_ptr<Logger>(std::make_unique<RunLog>(std::move(file), is_verbose, console));
  } catch (const spdlog::spdlog_ex& error) {
    return Error(ErrorCode::kIo, error.what());
  }
}

}  // namespace lockstep::control
