#include "common/base/log.h"

#include <utility>

// The words of LogLevel, not spdlog's own "warning".
#define SPDLOG_LEVEL_NAMES \
  { "trace", "debug", "info", "warn", "error", "critical", "off" }
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace lockstep {
namespace {

constexpr const char* kLinePattern = "%Y-%m-%dT%H:%M:%S.%eZ %-5l %v";

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

bool NeedsQuotes(std::string_view value) {
  return value.empty() || value.find_first_of(" \"=\n\t") != std::string_view::npos;
}

void AppendQuoted(std::string* text, std::string_view value) {
  text->push_back('"');
  for (const char c : value) {
    if (c == '\n') {
      *text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') {
      text->push_back('\\');
    }
    text->push_back(c);
  }
  text->push_back('"');
}

class StderrLogger final : public Logger {
 public:
  explicit StderrLogger(StderrLoggerOptions options)
      : prefix_(std::move(options.prefix)),
        logger_("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern(kLinePattern, spdlog::pattern_time_type::utc);
    logger_.set_level(ToSpdlog(options.level_min));
    logger_.flush_on(spdlog::level::debug);
  }

  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
    if (logger_.should_log(spdlog_level)) {
      logger_.log(spdlog_level, spdlog::string_view_t(prefix_ + FormatLogText(message, fields)));
    }
  }

 private:
  std::string prefix_;
  spdlog::logger logger_;
};

class FileLogger final : public Logger {
 public:
  FileLogger(spdlog::sink_ptr file, std::function<void(const std::string&)> on_lost)
      : logger_("lockstep", std::move(file)) {
    logger_.set_pattern(kLinePattern, spdlog::pattern_time_type::utc);
    logger_.set_level(spdlog::level::debug);
    logger_.flush_on(spdlog::level::debug);
    logger_.set_error_handler([on_lost = std::move(on_lost)](const std::string& error) {
      if (on_lost) {
        on_lost(error);
      }
    });
  }

  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    logger_.log(ToSpdlog(level), spdlog::string_view_t(FormatLogText(message, fields)));
  }

 private:
  spdlog::logger logger_;
};

class NullLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view, LogFields) override {}
};

}  // namespace

std::unique_ptr<Logger> MakeStderrLogger(StderrLoggerOptions options) {
  return std::make_unique<StderrLogger>(std::move(options));
}

Result<std::unique_ptr<Logger>> MakeFileLogger(const std::string& path,
                                               std::function<void(const std::string&)> on_lost) {
  try {
    return std::unique_ptr<Logger>(std::make_unique<FileLogger>(
        std::make_shared<spdlog::sinks::basic_file_sink_mt>(path), std::move(on_lost)));
  } catch (const spdlog::spdlog_ex& error) {
    return Error(ErrorCode::kIo, error.what());
  }
}

std::unique_ptr<Logger> MakeNullLogger() {
  return std::make_unique<NullLogger>();
}

std::string FormatLogText(std::string_view message, LogFields fields) {
  std::string text(message);
  for (const LogField& field : fields) {
    text += ' ';
    text += field.key;
    text += '=';
    if (NeedsQuotes(field.value)) {
      AppendQuoted(&text, field.value);
    } else {
      text += field.value;
    }
  }
  return text;
}

}  // namespace lockstep
