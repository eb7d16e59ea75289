#pragma once

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/eventfd.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"

namespace lockstep::runtime {

// What other threads want from a thread that polls fd(). It is not bounded: whoever posts says what
// bounds his letters.
template <typename Letter>
class LetterBox {
 public:
  // Errors: kResourceExhausted, kIo (no event descriptor).
  Status Open() {
    wake_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return wake_.is_open() ? OkStatus() : Status(SystemError(errno, "eventfd"));
  }

  // Readable when a letter waits.
  int fd() const { return wake_.get(); }

  // Thread: any.
  void Post(Letter letter) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      letters_.push_back(std::move(letter));
    }
    const uint64_t one = 1;
    // Fails only when the counter is full: then the reader is awake anyway.
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

  // Everything posted so far, oldest first. Thread: the one that polls.
  std::vector<Letter> Take() {
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(letters_, {});
  }

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<Letter> letters_;  // guarded by mutex_
};

}  // namespace lockstep::runtime
