#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/result.h"

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

// One key/value pair of a log line. Keys are shared vocabulary: job, namespace, attempt, epoch,
// rank, role, index, pod, step, error.
struct LogField {
  LogField(std::string_view key_name, std::string_view text) : key(key_name), value(text) {}

  LogField(std::string_view key_name, const char* text) : key(key_name), value(text) {}

  template <typename Number>

  requires std::is_arithmetic_v<Number> LogField(std::string_view key_name, Number number)
      : key(key_name), value(std::to_string(number)) {}

  std::string_view key;
  std::string value;
};

using LogFields = std::initializer_list<LogField>;

// Where log lines go: a constant message plus fields. Arrives by constructor, never from a global.
// Thread: any.
class Logger {
 public:
  virtual ~Logger() = default;
  virtual void Log(LogLevel level, std::string_view message, LogFields fields) = 0;

  void Debug(std::string_view message, LogFields fields = {}) {
    Log(LogLevel::kDebug, message, fields);
  }

  void Info(std::string_view message, LogFields fields = {}) {
    Log(LogLevel::kInfo, message, fields);
  }

  void Warn(std::string_view message, LogFields fields = {}) {
    Log(LogLevel::kWarn, message, fields);
  }

  void Error(std::string_view message, LogFields fields = {}) {
    Log(LogLevel::kError, message, fields);
  }
};

struct StderrLoggerOptions {
  LogLevel level_min = LogLevel::kInfo;
  std::string prefix;  // put before each line's message, for example "[worker-1] "; may be empty
};

// Lines "2026-11-21T10:22:03.123Z info  message key=value" on standard error. Source: spdlog.
std::unique_ptr<Logger> MakeStderrLogger(StderrLoggerOptions options);

// The same lines, of all levels, appended to the file at `path`. Once open, a file that cannot be
// written (disk full) loses lines and nothing else; `on_lost` hears of it on the thread that logs,
// once or more for one line. Errors: kIo. Source: spdlog.
Result<std::unique_ptr<Logger>> MakeFileLogger(
    const std::string& path, std::function<void(const std::string& error)> on_lost = nullptr);

// Drops everything: for tests and benchmarks.
std::unique_ptr<Logger> MakeNullLogger();

// "message key=value other=\"two words\"": how a line's text is put together.
std::string FormatLogText(std::string_view message, LogFields fields);

}  // namespace lockstep
