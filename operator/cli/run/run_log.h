#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/log.h"
#include "common/base/result.h"

namespace lockstep::control {

class Console;

// The operator's own log of a run: every line goes to a file; warnings and errors (with
// `is_verbose` everything) also to the console. A file that cannot be written any more is one
// warning there; the lines that it lacks are counted. Thread: the console's.
class RunLog final : public Logger {
 public:
  // `console` outlives the log. Errors: kIo.
  static Result<std::unique_ptr<RunLog>> Open(const std::string& path,
                                              bool is_verbose,
                                              Console* console);

  void Log(LogLevel level, std::string_view message, LogFields fields) override;

  // Into the file only: what people are told in words of their own.
  void Note(std::string_view message, LogFields fields) { Write(LogLevel::kInfo, message, fields); }

  // That are not in the file, in whole or in part.
  int64_t lost_lines() const { return lost_lines_; }

 private:
  void Write(LogLevel level, std::string_view message, LogFields fields);

  RunLog(bool is_verbose, Console* console) : is_verbose_(is_verbose), console_(console) {}

  bool is_verbose_;
  Console* console_;
  std::string error_;  // of the line that is being written; empty: none
  int64_t lost_lines_ = 0;
  std::unique_ptr<Logger> file_;  // last: it writes error_
};

}  // namespace lockstep::control
