#include "common/process/terminal_lines.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep {

TerminalLines::TerminalLines(std::size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {
  LOCKSTEP_CHECK(line_bytes_max > 0, "a line must hold at least one byte");
}

void TerminalLines::Append(std::string_view bytes, TimePoint now, const LineSink& sink) {
  while (!bytes.empty()) {
    const char next = bytes.front();
    if (next == '\n' || next == '\r') {
      bytes.remove_prefix(1);
      if (next == '\n') {
        EndLine(sink);
      } else {
        is_at_start_ = true;
      }
      continue;
    }
    if (is_at_start_) {
      Overwrite(now, sink);
    }
    if (line_.size() == line_bytes_max_) {
      EndLine(sink);
    }
    const std::size_t room = line_bytes_max_ - line_.size();
    const std::string_view part = bytes.substr(0, std::min(bytes.find_first_of("\r\n"), room));
    line_ += part;
    bytes.remove_prefix(part.size());
  }
}

void TerminalLines::Overwrite(TimePoint now, const LineSink& sink) {
  is_at_start_ = false;
  if (!line_.empty() && (!shown_at_.has_value() || now >= *shown_at_ + kOverwrittenPeriod)) {
    shown_at_ = now;
    sink(line_);
  }
  line_.clear();
}

void TerminalLines::Finish(const LineSink& sink) {
  if (!line_.empty()) {
    EndLine(sink);
  }
}

void TerminalLines::EndLine(const LineSink& sink) {
  is_at_start_ = false;
  shown_at_.reset();
  sink(line_);
  line_.clear();
}

}  // namespace lockstep
