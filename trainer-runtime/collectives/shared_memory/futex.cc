#include "trainer-runtime/collectives/shared_memory/futex.h"

#include <climits>
#include <ctime>
#include <unistd.h>

#include <linux/futex.h>
#include <sys/syscall.h>

namespace lockstep::runtime {

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, Duration timeout) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
  timespec left{};
  left.tv_sec = seconds.count();
  left.tv_nsec = (timeout - seconds).count();
  // Every outcome (woken, changed, timed out, interrupted) means the same: look again.
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &left, nullptr, 0);
}

void FutexWakeAll(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::runtime
