#pragma once

#include <variant>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/rendezvous/dialer.h"
#include "trainer-runtime/rendezvous/letter_box.h"
#include "trainer-runtime/rendezvous/membership.h"

namespace lockstep::runtime {

// Names are resolved: the call may go on.
struct NameResolved {
  CallKey key;
  uint64_t call = 0;
  Result<std::vector<SocketAddress>> addresses;
};

struct Shutdown {};

using Letter = std::variant<event::MeetRequested,
                            event::MeetWithdrawn,
                            event::Finished,
                            event::PeerGone,
                            NameResolved,
                            Shutdown>;

// What other threads want from the mesh's thread. Letters are few: one Meet at a time, one look-up
// for each peer, and the operator's word at the rate of its control messages.
using Mailbox = LetterBox<Letter>;

}  // namespace lockstep::runtime
