#include "operator/cmd/json_logger.h"

#include <string>
#include <unistd.h>

#include "common/base/time.h"
#include "common/json/json.h"

namespace lockstep::control {
namespace {

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

class JsonLogger final : public Logger {
 public:
  explicit JsonLogger(LogLevel level_min) : level_min_(level_min) {}

  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    if (level < level_min_) {
      return;
    }
    Json line = {{"time", FormatRfc3339(SystemClock().WallNow())},
                 {"level", LevelName(level)},
                 {"message", message}};
    for (const LogField& field : fields) {
      line[std::string(field.key)] = field.value;
    }
    const std::string text = DumpJson(line) + "\n";
    // One write for a line: lines of several threads do not mix.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }

 private:
  LogLevel level_min_;
};

}  // namespace

std::unique_ptr<Logger> MakeJsonLogger(LogLevel level_min) {
  return std::make_unique<JsonLogger>(level_min);
}

}  // namespace lockstep::control
