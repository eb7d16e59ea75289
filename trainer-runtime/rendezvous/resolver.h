#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {

// Looks up names on its own thread, so that a slow name server never holds up heartbeats.
class Resolver {
 public:
  using Callback = std::function<void(Result<std::vector<SocketAddress>>)>;

  Resolver() = default;
  // Drops what waits; ends after the look-up in progress, a few seconds at worst.
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` on the resolver's thread. The caller has at most one request for each peer under
  // way, which bounds the queue. Thread: one.
  void Resolve(std::string host, int port, Callback done);

 private:
  struct Request {
    std::string host;
    int port = 0;
    Callback done;
  };

  void Run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Request> requests_;  // guarded by mutex_
  std::jthread thread_;           // started by the first request; last, so that it ends first
};

}  // namespace lockstep::runtime
