#pragma once

#include <mutex>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "trainer-runtime/rendezvous/dialer.h"
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

// What other threads want from the mesh's thread, which polls fd(). Letters are few: one Meet at a
// time, one look-up for each peer, and the operator's word at the rate of its control messages.
class Mailbox {
 public:
  // Errors: kResourceExhausted, kIo (no event descriptor).
  Status Open();

  // Readable when a letter waits.
  int fd() const { return wake_.get(); }

  // Thread: any.
  void Post(Letter letter);

  // Everything posted so far, oldest first. Thread: the mesh's.
  std::vector<Letter> Take();

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<Letter> letters_;  // guarded by mutex_
};

}  // namespace lockstep::runtime
