#include "operator/cli/run/run_log.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/printable.h"
#include "operator/cli/terminal/console.h"

namespace lockstep::control {

Result<std::unique_ptr<RunLog>> RunLog::Open(const std::string& path,
                                             bool is_verbose,
                                             Console* console) {
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown)) {  // to open it would wait for a reader
    return lockstep::Error(ErrorCode::kInvalidArgument, path + " is a pipe, expected a file");
  }
  std::unique_ptr<RunLog> log(new RunLog(is_verbose, console));
  LOCKSTEP_ASSIGN_OR_RETURN(
      log->file_,
      MakeFileLogger(path, [log = log.get()](const std::string& error) { log->error_ = error; }));
  return log;
}

void RunLog::Write(LogLevel level, std::string_view message, LogFields fields) {
  error_.clear();
  file_->Log(level, message, fields);
  if (!error_.empty() && lost_lines_++ == 0) {
    console_->Print(Printable("warning: the operator's decisions are not logged: " + error_));
  }
}

void RunLog::Log(LogLevel level, std::string_view message, LogFields fields) {
  Write(level, message, fields);
  if (is_verbose_ || level == LogLevel::kWarn || level == LogLevel::kError) {
    console_->Print(Printable("lockstep: " + FormatLogText(message, fields)));
  }
}

}  // namespace lockstep::control
