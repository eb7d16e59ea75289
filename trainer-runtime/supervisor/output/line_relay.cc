#include "trainer-runtime/supervisor/output/line_relay.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// As many whole lines as fit into `size`, so that another writer of the same pipe gets in between
// lines only; the front of a line that does not fit.
std::string_view FrontLines(std::string_view bytes, std::size_t size) {
  if (bytes.size() <= size) {
    return bytes;
  }
  const std::size_t newline = bytes.rfind('\n', size - 1);
  return bytes.substr(0, newline == std::string_view::npos ? size : newline + 1);
}

std::size_t PayloadBytes(std::size_t line_bytes_max, std::size_t prefix_bytes) {
  LOCKSTEP_CHECK(line_bytes_max > prefix_bytes + 1,
                 "the longest line must have room for a byte after its prefix");
  return line_bytes_max - prefix_bytes - 1;
}

}  // namespace

LinePrefixer::LinePrefixer(std::string prefix, std::size_t line_bytes_max)
    : prefix_(std::move(prefix)), lines_(PayloadBytes(line_bytes_max, prefix_.size())) {}

void LinePrefixer::Append(std::string_view bytes, TimePoint now, std::string* output) {
  lines_.Append(bytes, now, SinkTo(output));
}

void LinePrefixer::Finish(std::string* output) {
  lines_.Finish(SinkTo(output));
}

TerminalLines::LineSink LinePrefixer::SinkTo(std::string* output) const {
  return [this, output](std::string_view line) {
    *output += prefix_;
    *output += line;
    *output += '\n';
  };
}

bool OutputSink::is_full() const {
  constexpr std::size_t kPendingMax = 256 * 1024;  // choice: a few pipes' worth
  return pending_.size() >= kPendingMax;
}

void OutputSink::WriteReady() {
  std::size_t written = 0;
  while (!is_broken_ && written < pending_.size()) {
    // A pipe that polls as writable takes PIPE_BUF bytes without blocking (pipe(7)).
    pollfd poll_entry{fd_, POLLOUT, 0};
    if (::poll(&poll_entry, 1, 0) <= 0) {
      break;
    }
    const std::string_view part = FrontLines(std::string_view(pending_).substr(written), PIPE_BUF);
    const ssize_t count = ::write(fd_, part.data(), part.size());
    if (count < 0 && errno == EAGAIN) {
      break;
    }
    is_broken_ = count < 0 && errno != EINTR;
    written += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  pending_.erase(0, is_broken_ ? pending_.size() : written);
}

}  // namespace lockstep::runtime
