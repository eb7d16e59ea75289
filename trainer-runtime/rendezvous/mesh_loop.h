#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/contract/environment/topology.h"
#include "common/process/thread_watch.h"
#include "trainer-runtime/rendezvous/dialer.h"
#include "trainer-runtime/rendezvous/mailbox.h"
#include "trainer-runtime/rendezvous/membership.h"
#include "trainer-runtime/rendezvous/reception.h"
#include "trainer-runtime/rendezvous/resolver.h"

namespace lockstep::runtime {

// What the mesh's thread leaves for others to read, under one lock.
struct MeshBoard {
  std::mutex mutex;
  std::condition_variable changed;         // an outcome is there, or is_finish_known
  std::optional<Result<Meeting>> outcome;  // of the Meet under way
  Epoch epoch;
  std::vector<PeerStatus> peers;
  bool has_finished = false;
  bool is_finish_known = false;
};

struct MeshLoopOptions {
  MembershipOptions membership;
  std::vector<HostPort> addresses;  // [world_size]
  std::string job_key;
  UniqueFd listener;  // empty in a world of one
  Logger* logger = nullptr;
  std::function<void(const PeerLoss&)> on_peer_lost;
  Mailbox* mailbox = nullptr;  // outlives the loop
  MeshBoard* board = nullptr;  // outlives the loop
};

// The mesh's thread: carries events from sockets, clock and mailbox to the membership, and does
// what it says. All state belongs to this thread.
class MeshLoop {
 public:
  // Thread: the one that calls Run.
  explicit MeshLoop(MeshLoopOptions options);

  // Runs until a Shutdown letter. Every connection is closed when the loop is destroyed.
  void Run();

 private:
  struct Link {
    int rank = 0;
    FramedSocket socket;
    std::optional<SocketAddress> called_at;  // empty: the peer called us
  };

  struct PendingCall {
    uint64_t number = 0;  // a later call of the same key has another one
    Epoch epoch;
  };

  struct DataLink {
    UniqueFd fd;
    Epoch epoch;
  };

  // One round.
  void WaitForWork();
  void ReadMail();
  void ReadVisitors(const PollSet& poll);
  void ReadCalls(const PollSet& poll);
  void ReadLinks(const PollSet& poll);
  void Publish();

  void OnLetter(const event::MeetRequested& letter);
  void OnLetter(const event::MeetWithdrawn& letter);
  void OnLetter(const event::Finished& letter);
  void OnLetter(const event::PeerGone& letter);
  void OnLetter(const NameResolved& letter);
  void OnLetter(const Shutdown& letter);
  void OnDataVisitor(Visitor visitor);
  void OnControlOutcome(CallOutcome outcome);
  void OnDataOutcome(CallOutcome outcome);
  bool ReadLink(LinkId id);

  // Hands an event to the membership, and does all that follows from it.
  void Feed(Event event);
  void Do(const action::Dial& action);
  void Do(const action::CancelDial& action);
  void Do(const action::Accept& action);
  void Do(const action::Refuse& action);
  void Do(const action::Close& action);
  void Do(const action::Send& action);
  void Do(const action::Look& action);
  void Do(const action::Formed& action);
  void Do(const action::Abandon& action);
  void Do(const action::Met& action);
  void Do(const action::PlansDiffer& action);
  void Do(const action::Broken& action);
  void Do(const action::TimedOut& action);
  void Do(const action::NobodyNeeded& action);
  void Do(const action::Superseded& action);

  void CallByName(const CallKey& key);
  void StartCall(const CallKey& key, std::vector<SocketAddress> addresses);
  void CancelCall(const CallKey& key);
  void FailCall(const CallKey& key, bool is_superseded, const std::string& errors);
  void CheckWired();
  void ClearWiring();
  void Deliver(Result<Meeting> outcome);
  std::string DescribeMissing(const std::vector<int>& missing) const;

  int self_rank() const { return options_.membership.self.identity.rank; }

  int world_size() const { return options_.membership.self.identity.world_size; }

  MeshLoopOptions options_;
  ThreadWatch watch_;
  Membership membership_;
  Reception reception_;
  Dialer dialer_;
  std::map<LinkId, Link> links_;
  std::map<LinkId, Link> undecided_;  // handed to the membership, no verdict yet
  LinkId last_link_;
  std::map<CallKey, PendingCall> calls_;  // under way, look-up included
  uint64_t call_count_ = 0;
  std::map<int, std::string> call_errors_;  // by rank: of the last call that failed
  std::deque<Event> events_;
  bool is_feeding_ = false;
  std::optional<action::Formed> formed_;  // the meeting whose data links are being made
  std::map<int, DataLink> data_links_;    // by rank
  bool is_meet_pending_ = false;
  bool is_running_ = true;
  TimePoint now_;
  Resolver resolver_;  // last: its thread posts to the mailbox
};

}  // namespace lockstep::runtime
