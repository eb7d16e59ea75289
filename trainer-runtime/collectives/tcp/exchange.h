#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer-runtime/collectives/communicator/call.h"

namespace lockstep::runtime {

// What one rank sends to and receives from each peer in one call, frame by frame, in an order that
// both ends compute alike. Pure: moves no bytes itself. The first frame each way carries the call.
// Frames too long for a socket's buffer go only once every peer is known to make the same call: so
// a rank that finds a mismatch has no frame half sent and can tell everyone.
class Exchange {
 public:
  struct OutFrame {
    bool has_call = false;
    std::span<const std::byte> body;
  };

  struct InFrame {
    bool has_call = false;
    std::span<std::byte> body;
  };

  virtual ~Exchange() = default;

  // The next frame to `peer`; nothing: none can go now, or none is left.
  virtual std::optional<OutFrame> NextOut(int peer) = 0;

  // The next frame from `peer`; nothing: there is no room for it now, or none is left.
  virtual std::optional<InFrame> NextIn(int peer) = 0;

  // What `peer` calls, which agrees with the own call: told before the frame is said to be
  // complete.
  virtual void HeardCall(int /*peer*/, const Call& /*call*/) {}

  // The frame last given by NextIn(peer) is complete.
  virtual void Received(int peer) = 0;

  // Whether NextOut and NextIn have given everything for `peer`, and all from it was received.
  virtual bool IsCompleteWith(int peer) const = 0;

  // Frames from `peer` not received yet: the peer with the most holds this rank up.
  virtual std::size_t MissingFrom(int peer) const = 0;

  // Puts the result in place. Precondition: complete with every peer, and every frame is sent.
  virtual void Finish() {}
};

// Buffers that outlive a call, so that steady training allocates nothing.
struct ExchangeBuffers {
  std::vector<std::vector<std::byte>> of_peer;  // [world_size]
};

// Everyone sends everything to everyone and combines it all: one trip, for few bytes.
std::unique_ptr<Exchange> MakeSmallAllReduce(const CallContext& context,
                                             int world_size,
                                             std::byte* data,
                                             ExchangeBuffers& buffers);

// Each rank combines one slice. Every byte travels as often as in a ring, 2(n-1)/n times, but
// straight to its owner: a ring would add each slice in another order, and take n-1 trips.
std::unique_ptr<Exchange> MakeSlicedAllReduce(const CallContext& context,
                                              int world_size,
                                              std::byte* data,
                                              ExchangeBuffers& buffers);

// All exchange their calls, and so learn who holds the bytes already. Few bytes then go from the
// root to all who lack them. Many go down a tree, in pieces that each rank passes on from their
// place as soon as they are there, so that nobody sends more than a few times what it has; whoever
// holds the bytes is a root of it. A barrier is one without bytes.
std::unique_ptr<Exchange> MakeBroadcast(const CallContext& context,
                                        int world_size,
                                        std::byte* data);

}  // namespace lockstep::runtime
