#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/process/terminal_lines.h"

namespace lockstep::control {

struct PodLogOptions {
  std::string path;
  int64_t bytes_max = 64 << 20;  // then the file is moved to PATH.1 and a new one begins (choice)
  std::size_t line_bytes_max =
      16 << 10;  // a longer line is echoed in pieces (the supervisor's own)
  std::function<void(std::string_view line)> on_line;  // echo, without the newline; may be empty
};

// What a pod printed that is in no file, because its log could not be written.
struct LostOutput {
  int64_t bytes = 0;
  std::string error;  // the first: path and the system's words; empty: nothing is lost
};

// What a pod prints: written to its log file as it comes, behind what an earlier run left there,
// echoed line by line as a terminal shows it, and the last bytes kept for the message of a failure.
// A log that cannot be written (disk full) never stops the pod: the bytes are dropped and counted.
// Thread: one.
class PodLog {
 public:
  // Errors: by errno of creating the file; kInvalidArgument where a pipe or socket lies there,
  // which would hold up who writes.
  static Result<PodLog> Open(PodLogOptions options);

  // `now`: when they came.
  void Append(std::string_view bytes, TimePoint now);

  // Echoes an unfinished last line. Call when the pod has ended.
  void Finish();

  // The last 2,048 bytes at most, from the start of a line. Source: the kubelet's limit for
  // FallbackToLogsOnError.
  std::string Tail() const;

  const LostOutput& lost() const { return lost_; }

 private:
  explicit PodLog(PodLogOptions options)
      : options_(std::move(options)), lines_(options_.line_bytes_max) {}

  Status Reopen(int flags);
  Status Store(std::string_view bytes);

  PodLogOptions options_;
  UniqueFd file_;
  int64_t file_bytes_ = 0;
  LostOutput lost_;
  TerminalLines lines_;
  std::string tail_;
};

}  // namespace lockstep::control
