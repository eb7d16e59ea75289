#pragma once

#include <cstdint>

#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// Tells the listener how far backward has come: it makes the gradients from the last element of the
// flat buffer to the first. For engines. Thread: the computing one.
class BackwardProgress {
 public:
  // `listener` may be empty; it must outlive this object.
  BackwardProgress(const GradientsReady& listener, int64_t element_count)
      : listener_(listener), ready_from_(element_count) {}

  // All gradients from `offset` on are made.
  void ReadyFrom(int64_t offset) {
    if (listener_ && offset < ready_from_) {
      listener_(offset, ready_from_ - offset);
    }
    ready_from_ = offset;
  }

 private:
  const GradientsReady& listener_;
  int64_t ready_from_;
};

}  // namespace lockstep::runtime
