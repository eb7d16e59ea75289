#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "common/process/terminal_lines.h"

namespace lockstep::runtime {

// Cuts a stream of bytes into whole lines, as a terminal would show them, and puts a prefix before
// each, so that the outputs of several processes can share one stream. Pure. Thread: one.
class LinePrefixer {
 public:
  // A line that with prefix and newline is longer than `line_bytes_max` goes on as a new one, which
  // has the prefix, too. Precondition (checked): it is longer than prefix and newline.
  LinePrefixer(std::string prefix, std::size_t line_bytes_max);

  // Takes the next bytes, which came at `now`, and appends the lines they complete to `output`.
  void Append(std::string_view bytes, TimePoint now, std::string* output);

  // The stream has ended: appends an unfinished line, with a newline.
  void Finish(std::string* output);

 private:
  TerminalLines::LineSink SinkTo(std::string* output) const;

  std::string prefix_;
  TerminalLines lines_;
};

// Bytes on their way to a descriptor that others may share: it is never made non-blocking and never
// blocks this process. When the reader goes away, output is dropped and the program runs on.
// Thread: one.
class OutputSink {
 public:
  // `fd` is not owned.
  explicit OutputSink(int fd) : fd_(fd) {}

  int fd() const { return fd_; }

  // Appends here, then call WriteReady.
  std::string* pending() { return &pending_; }

  // Whether there are bytes to write; then poll fd() for POLLOUT.
  bool has_pending() const { return !pending_.empty(); }

  // Whether so much is waiting that no more should be read from the programs (back-pressure).
  bool is_full() const;

  // Writes what the descriptor takes now without waiting.
  void WriteReady();

 private:
  int fd_;
  bool is_broken_ = false;
  std::string pending_;
};

}  // namespace lockstep::runtime
