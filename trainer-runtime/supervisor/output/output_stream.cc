#include "trainer-runtime/supervisor/output/output_stream.h"

#include <array>
#include <cerrno>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace lockstep::runtime {

OutputStream::OutputStream(UniqueFd fd,
                           std::optional<LinePrefixer> prefixer,
                           OutputSink* sink,
                           LastWords* words)
    : fd_(std::move(fd)), prefixer_(std::move(prefixer)), sink_(sink), words_(words) {}

bool OutputStream::ReadBlock() {
  std::array<char, 16384> block;
  const ssize_t count = fd_.is_open() ? ::read(fd_.get(), block.data(), block.size()) : 0;
  if (count < 0) {
    return errno == EINTR;
  }
  if (count == 0) {
    Close();
    return false;
  }
  byte_count_ += count;
  const std::string_view bytes(block.data(), static_cast<std::size_t>(count));
  const TimePoint now = SteadyNow();
  if (words_ != nullptr) {
    words_->Append(bytes, now);
  }
  if (prefixer_.has_value()) {
    prefixer_->Append(bytes, now, sink_->pending());
  } else {
    *sink_->pending() += bytes;
  }
  return true;
}

void OutputStream::Close() {
  if (fd_.is_open() && prefixer_.has_value()) {
    prefixer_->Finish(sink_->pending());
  }
  fd_.Reset();
}

}  // namespace lockstep::runtime
