#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// Tells how far backward has come, where somebody wants to hear of it: it makes the gradients from
// the last element of the flat buffer to the first. For engines. Thread: the computing one.
class BackwardProgress {
 public:
  using Teller = std::function<void(int64_t offset, int64_t count)>;

  // `ready_at` as in StepOptions; it must outlive this object. `tell` may be empty.
  BackwardProgress(Teller tell, std::span<const int64_t> ready_at, int64_t element_count)
      : tell_(std::move(tell)), ready_at_(ready_at), told_from_(element_count) {}

  // All gradients from `offset` on are made.
  void ReadyFrom(int64_t offset) {
    for (; next_ < ready_at_.size() && ready_at_[next_] >= offset; ++next_) {
      TellFrom(ready_at_[next_]);
    }
    if (offset == 0) {
      TellFrom(0);
    }
  }

 private:
  void TellFrom(int64_t begin) {
    if (tell_ && begin < told_from_) {
      tell_(begin, std::exchange(told_from_, begin) - begin);
    }
  }

  Teller tell_;
  std::span<const int64_t> ready_at_;
  std::size_t next_ = 0;
  int64_t told_from_;
};

// That of a step whose gradients are in the host's memory. `options` must outlive it.
inline BackwardProgress ProgressOnHost(const StepOptions& options, int64_t element_count) {
  BackwardProgress::Teller tell;
  if (options.on_ready) {
    tell = [&options](int64_t offset, int64_t count) { options.on_ready(offset, count, nullptr); };
  }
  return {std::move(tell), options.ready_at, element_count};
}

}  // namespace lockstep::runtime
