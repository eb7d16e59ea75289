#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "common/process/silence.h"
#include "trainer-runtime/rendezvous/mesh.h"

namespace lockstep::runtime {

// Membership decides who is a peer, at which epoch all meet, and when a meeting is over. It does no
// input or output: events and the time go in, duties come out.
//
// Local words. A *link* is an authenticated control connection to one incarnation of a peer. A
// rank *joins* epoch E when its process asks to meet there. Its *view* of E is the incarnation and
// facts of every rank, known once all have joined E. It *agrees* to a view by telling everybody the
// view's hash; it agrees to at most one view for each epoch. The meeting at E is *formed* for a
// rank when all ranks agreed to the view that it agreed to itself.
//
// Why this is safe: two meetings with the same number and a process in common are the same meeting,
// because that process agreed to one view only. Why it ends: a lost link of a rank that agreed
// raises the epoch by one, every rank adopts the highest epoch that it hears of, and at a fresh
// epoch nobody has agreed to anything. What it leaves to the operator: processes that were replaced
// without being killed, and talk only to each other, must be ended or told (PeerGone).
//
// How it ends for good: a rank whose last collective succeeded knows that all ranks came to it,
// with all work done, and says *finished*. Another whose part of it failed, because a third one
// died in it, would ask to meet again and wait in vain; it is told instead. Who has said it stays
// until all that are there have heard it.
//
// When a peer is lost: its link closes as soon as its process ends. A peer that says nothing while
// its link stands is judged by common/process/silence.h. The ranks on its host, its *neighbours*,
// look at the thread that should speak, and tell the others what they see. The others wait for that
// word: two of them that miss a peer have seen no more than one. A rank that was held up itself
// does not count the time in which it did not listen, and says so for a while.

using LinkId = StrongId<struct LinkTag>;

// Where a process can be looked at by others on its host.
struct Seat {
  uint64_t pid_namespace = 0;  // equal on one host: `thread` means the same thread; 0: not known
  int64_t thread = 0;          // that sends the heartbeats
  int64_t cpu_milli = 1000;    // thousandths of a core that its processes may use
};

// What opens a connection: who is calling.
struct Hello {
  MeshIdentity identity;
  std::string host_id;
  Seat seat = {};
};

// Why the last meeting of a rank ended, passed on so that everybody names the same culprit.
struct Culprit {
  Epoch ended;    // the epoch that is over
  int rank = -1;  // -1: none
  Incarnation incarnation;
  LossReason reason = LossReason::kClosed;

  friend bool operator==(const Culprit&, const Culprit&) = default;
};

// A peer that the sender has not heard for too long, and what it sees of it.
struct Testimony {
  int rank = 0;
  Sight sight = Sight::kUnseen;

  friend bool operator==(const Testimony&, const Testimony&) = default;
};

// So many silent peers are told of, those of the lowest ranks. Choice: when more are silent at once
// the host or the network of the sender is at fault, and its word is worth little.
inline constexpr std::size_t kTestimoniesMax = 16;

// What ranks tell each other over a link: always the whole state, so that any message may be lost,
// repeated or late. It is the heartbeat too.
struct MemberState {
  Epoch epoch;             // highest seen
  bool joined = false;     // asks to meet at `epoch`
  bool finished = false;   // all ranks have done all their work: nobody need meet again
  uint64_t agreement = 0;  // hash of the view agreed to at `epoch`; 0: none
  SelfFacts facts;
  Culprit culprit;
  bool is_strained = false;            // the sender was held up itself a short time ago
  std::vector<Testimony> silent = {};  // at most kTestimoniesMax
};

// Why a connection is not accepted.
enum class Refusal {
  kBusy,        // the pair is connecting the other way round; trying again soon is right
  kStaleEpoch,  // a data link for an epoch that is not (or no longer) being met
  kSuperseded,  // a newer incarnation or attempt exists: final for the caller
  kWrongJob,    // other job, world size or rank; or no such rank
};

const char* RefusalName(Refusal refusal);

namespace event {
struct Tick {};  // time passed; every input that had arrived by `now` was handed in before

struct MeetRequested {
  SelfFacts facts;
  Epoch at_least;
  TimePoint deadline;
};

struct MeetWithdrawn {};  // the caller of Meet gave up

struct HelloReceived {  // a peer proved who it is on connection `link`, and asks to be accepted
  LinkId link;
  Hello hello;
};

struct DialConnected {  // our connection to `rank` stands; hello is on its way
  int rank = 0;
};

struct DialAccepted {  // the peer accepted our hello: `link` is up
  int rank = 0;
  LinkId link;
  Hello hello;
};

struct DialFailed {  // all addresses of `rank` failed
  int rank = 0;
  bool is_superseded = false;  // the peer says that this process is a zombie
};

struct StateReceived {
  LinkId link;
  MemberState state;
};

struct LinkLost {
  LinkId link;
};

struct SupersededNotice {};  // a peer says that this process is a zombie

struct DataLinksReady {  // one data connection to every peer stands
  Epoch epoch;
};

struct DataLinkFailed {  // the data connection to `rank` for `epoch` cannot be made
  Epoch epoch;
  int rank = 0;
};

struct Finished {};  // the caller of Meet knows that all ranks have done all their work

struct Seen {  // the answer to Look
  LinkId link;
  Sight sight = Sight::kUnseen;
};

struct PeerGone {  // the operator's word
  int rank = 0;
  Incarnation replacement;
  Epoch epoch;
};
}  // namespace event

using Event = std::variant<event::Tick,
                           event::MeetRequested,
                           event::MeetWithdrawn,
                           event::HelloReceived,
                           event::DialConnected,
                           event::DialAccepted,
                           event::DialFailed,
                           event::StateReceived,
                           event::LinkLost,
                           event::SupersededNotice,
                           event::DataLinksReady,
                           event::DataLinkFailed,
                           event::Finished,
                           event::Seen,
                           event::PeerGone>;

namespace action {
struct Dial {
  int rank = 0;
};

struct CancelDial {  // no DialConnected, DialAccepted or DialFailed of it may follow
  int rank = 0;
};

struct Accept {
  LinkId link;
};

struct Refuse {
  LinkId link;
  Refusal reason = Refusal::kBusy;
};

struct Close {  // no event of it may follow
  LinkId link;
  bool tell_superseded = false;  // say SupersededNotice before closing
};

struct Send {
  LinkId link;
  MemberState state;
};

struct Look {  // how the kernel lets a thread of this host run: answer with Seen at once
  LinkId link;
  int64_t thread = 0;
};

struct Formed {  // make the data connections, then answer DataLinksReady or DataLinkFailed
  Epoch epoch;
  std::vector<MemberFacts> members;
};

struct Abandon {};  // the formed epoch is void before its data connections stood; close them

struct Met {  // Meet returns this epoch's meeting
  Epoch epoch;
};

struct PlansDiffer {  // all know it who agreed: Meet fails, and says so
  int rank = 0;       // the first whose plan is not that of rank 0
};

struct Broken {  // the meeting that Meet returned is over
  PeerLoss loss;
};

struct TimedOut {  // Meet's deadline passed
  std::vector<int> missing;
};

struct NobodyNeeded {};  // all work is done; Meet fails now and for ever

struct Superseded {};  // this process is a zombie; Meet fails now and for ever
}  // namespace action

using Action = std::variant<action::Dial,
                            action::CancelDial,
                            action::Accept,
                            action::Refuse,
                            action::Close,
                            action::Send,
                            action::Look,
                            action::Formed,
                            action::Abandon,
                            action::Met,
                            action::PlansDiffer,
                            action::Broken,
                            action::TimedOut,
                            action::NobodyNeeded,
                            action::Superseded>;

struct MembershipOptions {
  Hello self;
  Epoch initial_epoch;
  Duration heartbeat = std::chrono::milliseconds(250);
  Duration silent_after = std::chrono::milliseconds(1500);
  // Choices: a refused connection on one host costs 50 us, so the first retries come quickly; a
  // newcomer dials everybody itself, so late retries may be slow.
  Duration dial_backoff_min = std::chrono::milliseconds(2);
  Duration dial_backoff_max = std::chrono::milliseconds(200);
};

class Membership {
 public:
  // Precondition (checked): 0 <= rank < world_size.
  Membership(MembershipOptions options, TimePoint now);

  // Takes in one event and returns what to do, in order. `now` never decreases.
  std::vector<Action> Apply(const Event& event, TimePoint now);

  // When the next Tick is due at the latest; TimePoint::max() once superseded.
  TimePoint NextTick() const;

  // Whether a data connection of that peer for that epoch is wanted.
  bool WantsDataLink(int rank, Incarnation incarnation, Epoch epoch) const;

  Epoch epoch() const { return epoch_; }

  // Whether all work is done, by this process's word or a peer's.
  bool has_finished() const { return has_finished_; }

  // Whether every peer that is there knows so, too: then this process may leave.
  bool IsFinishKnown() const;

  bool is_superseded() const { return stage_ == Stage::kSuperseded; }

  // All other ranks, by rank.
  std::vector<PeerStatus> Peers(TimePoint now) const;

 private:
  // kApart -> kJoined (asked to meet) -> kWiring (formed, data connections under way) -> kMet.
  enum class Stage { kApart, kJoined, kWiring, kMet, kSuperseded };
  enum class DialStage { kIdle, kConnecting, kSaidHello };

  struct Peer {
    Incarnation incarnation;  // newest known; older ones are zombies
    bool was_linked = false;  // this incarnation
    std::optional<LinkId> link;
    std::string host_id;
    Seat seat;
    MemberState state;  // meaningful while linked
    TimePoint last_heard;
    std::optional<Sight> sight;  // since it is silent: what the newest look has shown
    TimePoint next_look;         // when its silence is judged again
    bool is_suspect = false;     // others are told that it is silent
    DialStage dial = DialStage::kIdle;
    TimePoint next_dial;
    Duration backoff = Duration::zero();
    LossReason last_loss = LossReason::kClosed;
  };

  void On(const event::Tick& event);
  void On(const event::MeetRequested& event);
  void On(const event::MeetWithdrawn& event);
  void On(const event::HelloReceived& event);
  void On(const event::DialConnected& event);
  void On(const event::DialAccepted& event);
  void On(const event::DialFailed& event);
  void On(const event::StateReceived& event);
  void On(const event::LinkLost& event);
  void On(const event::SupersededNotice& event);
  void On(const event::DataLinksReady& event);
  void On(const event::DataLinkFailed& event);
  void On(const event::Finished& event);
  void On(const event::Seen& event);
  void On(const event::PeerGone& event);

  bool IsSelf(int rank) const { return rank == options_.self.identity.rank; }

  bool IsRank(int rank) const { return rank >= 0 && rank < static_cast<int>(peers_.size()); }

  std::optional<int> RankOf(LinkId link) const;
  std::optional<Refusal> Judge(const Hello& hello);
  void LearnIncarnation(int rank, Incarnation incarnation, LossReason reason);
  void LinkUp(int rank, LinkId link, const Hello& hello);
  void DropLink(int rank, LossReason reason);
  void Retry(int rank);
  void Lose(const Culprit& culprit);
  void AdoptEpoch(Epoch epoch, const Culprit& culprit);
  void BecomeSuperseded();
  void ForgiveOwnSilence();
  void NoteHeard(Peer* peer);
  void HeedTestimony(const Testimony& testimony);
  void NoticeSilence();
  void JudgeSilenceOf(int rank);
  void DialMissing();
  void Progress();
  bool AllJoined() const;
  bool AllAgreed() const;
  std::vector<MemberFacts> View() const;
  uint64_t HashView(const std::vector<MemberFacts>& members) const;
  static std::optional<int> OddPlan(const std::vector<MemberFacts>& members);
  void TellOfPlans();
  std::vector<int> MissingRanks() const;
  bool IsVisible(const Peer& peer) const;
  SilenceLimits LimitsFor(const Peer& peer) const;
  bool IsListenedTo(int rank, TimePoint now) const;
  Sight SightOf(int rank) const;
  bool HasNeighbour(int rank) const;
  bool IsMissedByOthers(int rank) const;
  bool IsHostAlone(const std::string& host_id) const;
  std::vector<Testimony> Testimonies() const;
  void SendState();

  MembershipOptions options_;
  TimePoint now_;
  TimePoint last_tick_;
  TimePoint last_sent_;
  std::vector<Peer> peers_;  // [world_size]; the entry of self is unused
  Stage stage_ = Stage::kApart;
  Epoch epoch_;
  std::optional<Epoch> joined_last_;  // the newest epoch that this process ever joined
  uint64_t agreement_ = 0;            // at epoch_; 0: none
  // Of whom an agreement says that its plan is not that of rank 0.
  std::optional<int> odd_plan_;
  std::optional<int> plan_to_tell_;  // of whom it is told when the state has been sent
  SelfFacts facts_;
  TimePoint joined_at_;  // when this meeting was asked for
  TimePoint meet_deadline_;
  Culprit culprit_;
  bool has_finished_ = false;
  bool must_send_ = false;
  TimePoint strained_until_;
  std::vector<Action> actions_;
};

}  // namespace lockstep::runtime
