#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "trainer-runtime/rendezvous/framed_socket.h"
#include "trainer-runtime/rendezvous/handshake.h"
#include "trainer-runtime/rendezvous/poll_set.h"

namespace lockstep::runtime {

// A caller that proved who it is and waits for a verdict.
struct Visitor {
  FramedSocket socket;
  HelloFrame hello;
};

struct ReceptionOptions {
  UniqueFd listener;  // empty: nobody ever calls
  Hello self;
  std::string job_key;
  std::size_t waiting_max =
      64;                    // callers in their handshake; above this new ones wait in the kernel
  Logger* logger = nullptr;  // outlives this
};

// Takes the mesh's incoming connections through their handshake. Thread: the mesh's.
class Reception {
 public:
  explicit Reception(ReceptionOptions options) : options_(std::move(options)) {}

  void Watch(PollSet* poll, TimePoint now) const;

  // When a silent caller is sent away, or accepting goes on; TimePoint::max() for never.
  TimePoint NextTimeout() const;

  // Callers whose handshake is complete. The rest of the protocol is a verdict to each.
  std::vector<Visitor> Advance(const PollSet& poll, TimePoint now);

 private:
  struct Caller {
    FramedSocket socket;
    AcceptorHandshake handshake;
    bool has_said_hello = false;
    TimePoint give_up;
  };

  bool CanAccept(TimePoint now) const;
  void AcceptWaiting(TimePoint now);
  Result<bool> Progress(Caller* caller) const;

  ReceptionOptions options_;
  std::vector<Caller> callers_;
  TimePoint accept_again_;  // after running out of descriptors
};

}  // namespace lockstep::runtime
