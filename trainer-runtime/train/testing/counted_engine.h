#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// What a trainer asked of an engine.
struct EngineCalls {
  std::atomic<int64_t> guarded = 0;
  std::atomic<int64_t> waits = 0;  // beside those of guarded steps
  std::atomic<int64_t> updates = 0;
  std::atomic<int64_t> prefetched = 0;  // steps whose batch had come ahead
};

// `inner`, counting into `calls`, which must outlive it.
std::unique_ptr<Engine> MakeCountedEngine(std::unique_ptr<Engine> inner, EngineCalls* calls);

}  // namespace lockstep::runtime
