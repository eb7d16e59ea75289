// Preloaded into a process, this shows it a calendar that is an hour ahead. The monotonic clock
// stays as it is, as it does on a machine whose calendar is wrong.

#include <ctime>
#include <unistd.h>

#include <sys/syscall.h>

namespace {

constexpr time_t kAheadSeconds = 3600;

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) {
    time->tv_sec += kAheadSeconds;
  }
  return result;
}
