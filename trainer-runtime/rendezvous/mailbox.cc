#include "trainer-runtime/rendezvous/mailbox.h"

#include <cerrno>
#include <cstdint>
#include <unistd.h>
#include <utility>

#include <sys/eventfd.h>

namespace lockstep::runtime {

Status Mailbox::Open() {
  wake_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return wake_.is_open() ? OkStatus() : Status(SystemError(errno, "eventfd"));
}

void Mailbox::Post(Letter letter) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  const uint64_t one = 1;
  // Fails only when the counter is full: then the reader is awake anyway.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

std::vector<Letter> Mailbox::Take() {
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(letters_, {});
}

}  // namespace lockstep::runtime
