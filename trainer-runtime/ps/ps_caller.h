#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "trainer-runtime/ps/message_socket.h"
#include "trainer-runtime/rendezvous/dialer.h"
#include "trainer-runtime/rendezvous/letter_box.h"
#include "trainer-runtime/rendezvous/poll_set.h"
#include "trainer-runtime/rendezvous/resolver.h"

namespace lockstep::runtime {

// How a ps is called in a handshake: its number stands where ranks have theirs, after all of them.
inline int PsPlace(int world_size, int ps) {
  return world_size + ps;
}

struct PsCallerOptions {
  MeshIdentity self;                // rank: a worker's, or the place of a ps
  std::vector<HostPort> addresses;  // [ps]
  std::string job_key;
};

// What has happened to a connection to a ps.
struct CallerNews {
  enum class Kind {
    kUp,       // the connection stands
    kDown,     // it has ended, or could not be made: what was sent may be lost
    kRefused,  // as superseded: this process has a successor. Final, and nobody is called again
    kMessage
  };

  int ps = 0;
  Kind kind = Kind::kUp;
  std::string text;  // the message; of kDown, why
};

// The connections that one process makes to the ps of its job, each when it is wanted.
// Thread: one, but what the resolver posts.
class PsCaller {
 public:
  explicit PsCaller(PsCallerOptions options);

  // Errors: kResourceExhausted, kIo (no event descriptor).
  Status Open() { return names_.Open(); }

  // Connects to the ps unless it is connected or called already; after a failure a moment later.
  void Want(int ps, TimePoint now);

  // The ps has a process of this incarnation: what stands to an older one ends, and no older one is
  // taken any more, dead or not. Old news is ignored.
  void NoteNewest(int ps, Incarnation incarnation, TimePoint now);

  // This process has a successor: what stands stays, and nobody is called any more. Final.
  void CallNobody();

  bool IsUp(int ps) const { return links_.contains(ps); }

  // Bytes that went over the connection that stands, both ways together; 0 where there is none.
  uint64_t BytesMoved(int ps) const;

  // Whether something waits to be sent to the ps.
  bool HasUnsent(int ps) const;

  // Sent at once or in later rounds; dropped where there is no connection.
  void Send(int ps, const std::string& message);

  void Watch(PollSet* poll) const;

  // When a call gives up, or may begin again; TimePoint::max() for never.
  TimePoint NextTimeout() const;

  // All that came since the last round, in its order.
  std::vector<CallerNews> Advance(const PollSet& poll, TimePoint now);

 private:
  struct NameFound {
    int ps = 0;
    Result<std::vector<SocketAddress>> addresses;
  };

  enum class CallStage { kWaiting, kNaming, kDialing };

  struct PsCall {
    CallStage stage = CallStage::kWaiting;
    TimePoint begin_at;
  };

  struct Link {
    Incarnation incarnation;  // of the ps
    MessageSocket socket;
  };

  void Begin(int ps, TimePoint now);
  void Dial(int ps, std::vector<SocketAddress> addresses, TimePoint now);
  void Fail(int ps, std::string why, TimePoint now);
  void Take(CallOutcome outcome, TimePoint now);
  void ReadLink(int ps, TimePoint now);

  PsCallerOptions options_;
  Dialer dialer_;
  std::map<int, PsCall> calls_;                 // by ps: wanted and not there
  std::map<int, std::unique_ptr<Link>> links_;  // by ps
  std::map<int, Incarnation> newest_;           // by ps
  bool is_superseded_ = false;
  std::vector<CallerNews> news_;
  LetterBox<NameFound> names_;  // at most one for each ps
  Resolver resolver_;           // last: its thread posts
};

}  // namespace lockstep::runtime
