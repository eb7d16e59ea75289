#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace lockstep::runtime {

// Keeps SIGTERM and SIGINT waiting until somebody asks for them: what main does first. Otherwise a
// process that is told to end while it starts would die without its last words, and as the first
// process of a container it would not even hear of it: the kernel drops what has no handler.
void HoldStopSignals();

// Lets them end this process again, those that wait included.
void ReleaseStopSignals();

// Turns SIGTERM and SIGINT into a request that training code can ask about. Construct it in main
// before any other thread starts, with the signals on hold: so they are in every thread made later.
class StopSignal {
 public:
  StopSignal();

  // Set once, by the first signal or by Request().
  const std::atomic<bool>& requested() const { return requested_; }

  // For waits that end early on a stop.
  std::stop_token token() const { return source_.get_token(); }

  // As if a signal had come. Thread: any.
  void Request();

 private:
  std::atomic<bool> requested_{false};
  std::stop_source source_;
  std::jthread waiter_;  // last: ends before what it uses
};

}  // namespace lockstep::runtime
