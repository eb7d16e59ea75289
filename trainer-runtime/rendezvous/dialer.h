#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "trainer-runtime/rendezvous/framed_socket.h"
#include "trainer-runtime/rendezvous/handshake.h"
#include "trainer-runtime/rendezvous/poll_set.h"
#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {

// One call at a time for each kind of link and each rank.
struct CallKey {
  LinkKind kind = LinkKind::kControl;
  int rank = 0;

  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

struct CallRequest {
  std::vector<SocketAddress> addresses;  // all are tried, in order, until one accepts
  HelloFrame hello;
  std::optional<Incarnation> expected;  // answer by another incarnation counts as failure
};

// How a call goes on.
struct CallOutcome {
  enum class Kind {
    kConnected,  // somebody answers; the handshake is under way
    kAccepted,   // `socket` is ours
    kFailed,     // no address accepted
  };

  CallKey key;
  Kind kind = Kind::kFailed;
  std::optional<FramedSocket> socket;
  Hello peer;
  SocketAddress address;       // kAccepted: where it answered
  bool is_superseded = false;  // a peer said that this process is a zombie
  std::string errors;          // "address: reason; address: reason"
};

// Makes the mesh's outgoing connections, handshake included. Thread: the mesh's.
class Dialer {
 public:
  explicit Dialer(std::string job_key) : job_key_(std::move(job_key)) {}

  // Begins a call; a call of the same key is cancelled.
  void Start(const CallKey& key, CallRequest request, TimePoint now);

  void Cancel(const CallKey& key) { calls_.erase(key); }

  void Watch(PollSet* poll) const;

  // When a call gives up on its address; TimePoint::max() without calls.
  TimePoint NextTimeout() const;

  // What came of all calls since the last round.
  std::vector<CallOutcome> Advance(const PollSet& poll, TimePoint now);

 private:
  enum class Stage { kConnecting, kAwaitingReply, kAwaitingVerdict };

  struct Call {
    CallRequest request;
    std::size_t next_address = 0;
    Stage stage = Stage::kConnecting;
    std::optional<FramedSocket> socket;
    std::optional<CallerHandshake> handshake;
    TimePoint give_up;
    bool is_superseded = false;
    std::string errors;
  };

  void TryNextAddress(Call* call, TimePoint now);
  void GiveUpAddress(Call* call, const Error& error, TimePoint now);
  Status Progress(Call* call, bool* is_accepted, bool* is_connected);
  Status OnFrame(Call* call, const std::string& body, bool* is_accepted);

  std::string job_key_;
  std::map<CallKey, Call> calls_;
};

}  // namespace lockstep::runtime
