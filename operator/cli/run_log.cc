#include "operator/cli/run_log.h"

#include <string>
#include <utility>

#include "operator/cli/console.h"

namespace lockstep::control {
namespace {

class RunLog final : public Logger {
 public:
  RunLog(std::unique_ptr<Logger> file, bool is_verbose, Console* console)
      : file_(std::move(file)), is_verbose_(is_verbose), console_(console) {}

  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    file_->Log(level, message, fields);
    if (is_verbose_ || level == LogLevel::kWarn || level == LogLevel::kError) {
      console_->Print(Printable("lockstep: " + FormatLogText(message, fields)));
    }
  }

 private:
  std::unique_ptr<Logger> file_;
  bool is_verbose_;
  Console* console_;
};

}  // namespace

Result<std::unique_ptr<Logger>> MakeRunLog(const std::string& path,
                                           bool is_verbose,
                                           Console* console) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Logger> file, MakeFileLogger(path));
  return std::unique_ptr<Logger>(std::make_unique<RunLog>(std::move(file), is_verbose, console));
}

}  // namespace lockstep::control
