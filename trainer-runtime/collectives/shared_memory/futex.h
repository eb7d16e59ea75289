#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/time.h"

namespace lockstep::runtime {

// Sleeps until woken, `timeout` is over, or at once when `word` is not `expected`; may also wake
// for no reason. The word may lie in memory shared between processes. Source: futex(2), FUTEX_WAIT.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, Duration timeout);

// Wakes everyone asleep on `word`, in any process.
void FutexWakeAll(const std::atomic<uint32_t>& word);

// Tells the core that this is a spin loop: spares power and the other hardware thread.
inline void SpinPause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace lockstep::runtime
