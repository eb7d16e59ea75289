#include "trainer-runtime/supervisor/output/pod_output.h"

#include <optional>
#include <utility>

#include "trainer-runtime/supervisor/output/line_relay.h"

namespace lockstep::runtime {
namespace {

// Longer lines go on in a new one with its own prefix. Source: containerd cuts lines there.
constexpr std::size_t kLineBytesMax = 16 * 1024;

// Of a process that has ended, what a pipe of the largest size without privileges may hold.
constexpr int kLastReadsMax = 64;

void TakeFrom(OutputStream* stream) {
  for (int reads = 0; reads < kLastReadsMax && stream->ReadBlock(); ++reads) {
  }
}

}  // namespace

PodOutput::PodOutput(int output_fd, int error_fd, std::size_t process_count)
    : output_(output_fd), error_(error_fd) {
  for (std::size_t local_rank = 0; local_rank < process_count; ++local_rank) {
    words_.emplace_back();
    streams_.emplace_back(UniqueFd(), std::nullopt, &output_, nullptr);
    streams_.emplace_back(UniqueFd(), std::nullopt, &error_, nullptr);
  }
}

void PodOutput::Attach(std::size_t local_rank,
                       ChildProcess* child,
                       const std::string& prefix,
                       bool is_plain) {
  std::optional<LinePrefixer> prefixer;
  if (!is_plain) {
    prefixer.emplace(prefix, kLineBytesMax);
  }
  words_[local_rank] = LastWords();
  streams_[2 * local_rank] = OutputStream(std::move(child->output), prefixer, &output_, nullptr);
  streams_[2 * local_rank + 1] =
      OutputStream(std::move(child->error), prefixer, &error_, &words_[local_rank]);
}

void PodOutput::AddEntries(std::vector<pollfd>* entries) const {
  for (const OutputStream& stream : streams_) {
    if (stream.wants_input()) {
      entries->push_back({stream.fd(), POLLIN, 0});
    }
  }
  for (const OutputSink* sink : {&output_, &error_}) {
    if (sink->has_pending()) {
      entries->push_back({sink->fd(), POLLOUT, 0});
    }
  }
}

void PodOutput::Pass() {
  for (OutputStream& stream : streams_) {
    if (stream.wants_input()) {
      stream.ReadBlock();
    }
  }
  output_.WriteReady();
  error_.WriteReady();
}

void PodOutput::TakeErrors(std::size_t local_rank) {
  TakeFrom(&streams_[2 * local_rank + 1]);
}

void PodOutput::TakeRest(std::size_t local_rank) {
  for (const std::size_t stream : {2 * local_rank, 2 * local_rank + 1}) {
    TakeFrom(&streams_[stream]);
    streams_[stream].Close();
  }
}

void PodOutput::Finish(Duration patience) {
  for (OutputStream& stream : streams_) {
    while (stream.ReadBlock()) {
    }
    stream.Close();
  }
  const Deadline deadline = Deadline::After(SteadyNow(), patience);
  for (OutputSink* sink : {&output_, &error_}) {
    while (sink->has_pending() && !deadline.HasPassed(SteadyNow())) {
      pollfd entry{sink->fd(), POLLOUT, 0};
      ::poll(&entry, 1, deadline.RemainingMilliseconds(SteadyNow()));
      sink->WriteReady();
    }
  }
}

int64_t PodOutput::ByteCount(std::size_t local_rank) const {
  return streams_[2 * local_rank].byte_count() + streams_[2 * local_rank + 1].byte_count();
}

bool PodOutput::IsHeldUp(std::size_t local_rank) const {
  return streams_[2 * local_rank].is_held_up() || streams_[2 * local_rank + 1].is_held_up();
}

}  // namespace lockstep::runtime
