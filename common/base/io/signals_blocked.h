#pragma once

#include <csignal>

namespace lockstep {

// While it lives, the calling thread takes no signals; threads that it starts never do. Signals are
// for the program's own threads, which know what to do with them.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lockstep
