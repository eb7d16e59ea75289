#pragma once

#include <map>
#include <poll.h>
#include <vector>

#include "common/base/time.h"

namespace lockstep::runtime {

// The descriptors that one round of the mesh's thread waits for. Built anew each round.
class PollSet {
 public:
  // `for_writing`: also wake when the descriptor can be written (or its connection stands).
  void Watch(int fd, bool for_writing = false);

  // Waits for any of them, at most until `until`. Interruption by a signal counts as waking.
  void Wait(TimePoint now, TimePoint until);

  // Whether the descriptor can be read, written, or has failed.
  bool IsReady(int fd) const;

 private:
  std::vector<pollfd> entries_;
  std::map<int, std::size_t> index_;
};

}  // namespace lockstep::runtime
