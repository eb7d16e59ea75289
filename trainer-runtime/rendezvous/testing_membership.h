#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/prng.h"
#include "trainer-runtime/rendezvous/membership.h"

// The real membership code of a whole gang in a seeded world: connections are slow, messages are
// dropped, repeated and overtake each other, processes die, are replaced, are stopped and come back
// as zombies, and the network splits.

namespace lockstep::runtime::testing {

inline constexpr int kRanksMax = 100;
inline constexpr int64_t kCpuMilli = 4000;
inline constexpr TimePoint kStart{std::chrono::seconds(100)};
inline constexpr Duration kFaultsFor = std::chrono::seconds(8);
// Silence is noticed after 1.5 to 5 s, a wrong call is given up after 1 s, a Meet after at most 8
// s.
inline constexpr Duration kCalmFor = std::chrono::seconds(14);

// One process of one rank, with the program that drives its membership.
struct Process {
  int id = 0;
  int rank = 0;
  Incarnation incarnation;
  std::unique_ptr<Membership> membership;
  bool is_dead = false;
  bool is_paused = false;
  bool is_current = true;    // false once the operator replaced it
  std::vector<Event> inbox;  // what arrives while paused
  int dial_count = 0;
  std::map<int, int> dial_number;        // by rank: the dial under way, if any
  std::optional<action::Formed> formed;  // waiting for data connections
  std::optional<Epoch> met;
  Epoch epoch_seen;
};

// A control connection; both ends know it by one id.
struct Connection {
  int dialler = 0;
  int acceptor = 0;
  int dial_number = 0;
  bool open_at_dialler = true;
  bool open_at_acceptor = true;
  bool accepted = false;
};

// All processes of a job, the network between them, and what goes wrong.
class World {
 public:
  World(uint64_t seed, int world_size);

  // Eight seconds of faults, then calm; checks all the way and at the end that all is well.
  // Failures are GoogleTest's.
  void Run();

  // What happened, one line an event.
  std::string Trace() const { return trace_; }

 private:
  struct Entry {
    TimePoint when;
    uint64_t order;
    std::function<void()> run;

    bool operator<(const Entry& other) const {
      return std::tie(other.when, other.order) < std::tie(when, order);
    }
  };

  struct Record {  // one formed meeting
    int process;
    Epoch epoch;
    std::vector<MemberFacts> members;
  };

  // Chance, time and names.
  Duration Between(int64_t min_ms, int64_t max_ms);
  Duration NetworkDelay();  // mostly fast, sometimes slow: messages overtake each other
  void At(Duration delay, std::function<void()> run);
  void Note(const std::string& text);
  static std::string Name(const Process& process);

  bool Chance(double probability) { return prng_.Unit() < probability; }

  Process& Of(int id) { return *processes_[static_cast<std::size_t>(id)]; }

  // A process and its program.
  void Spawn(int rank, Incarnation incarnation);
  void RequestMeeting(int id, Epoch at_least, Duration delay);
  void RequestMeetingIfMet(int id, Duration delay);
  void Deliver(int id, Event event);
  void ScheduleTick(int id);

  // What the membership of process `id` orders.
  void Do(int id, const action::Dial& dial);
  void Do(int id, const action::CancelDial& cancel);
  void Do(int id, const action::Accept& accept);
  void Do(int id, const action::Refuse& refuse);
  void Do(int id, const action::Close& close);
  void Do(int id, const action::Send& send);
  void Do(int id, const action::Look& look);
  void Do(int id, const action::Formed& formed);
  void Do(int id, const action::Abandon& abandon);
  void Do(int id, const action::Met& met);
  void Do(int id, const action::Broken& broken);
  void Do(int id, const action::TimedOut& timed_out);
  void Do(int id, const action::PlansDiffer& plans_differ);
  void Do(int id, const action::NobodyNeeded& nobody_needed);
  void Do(int id, const action::Superseded& superseded);

  // The network.
  bool IsCut(const Process& a, const Process& b) const;
  bool IsDialing(int id, int rank, int number);
  void Connect(int id, int rank, int number);
  void FailDial(int id, int rank, int number, bool is_superseded);
  void GiveUpDial(int id, int rank, int number);
  void CloseDialConnection(int id, int number);
  Hello HelloOf(int id) const;
  Hello HelloOf(int rank, Incarnation incarnation) const;
  static int64_t ThreadOf(int rank, Incarnation incarnation);
  // Closes one end; the other hears of it if it can.
  void CloseEnd(int id, LinkId link, bool tell_superseded);
  // An event of a connection whose end at `id` still stands; LinkLost ends it.
  void Hear(int id, LinkId link, const Event& event);
  // One of the two opens the data connection; which one makes no difference here.
  void Wire(int id, int lower, Epoch epoch);
  void MaybeReady(int id);

  // What must always hold.
  void CheckFormed(int id, const action::Formed& formed);
  void CheckAgainst(const Record& earlier, const action::Formed& formed);
  void ExpectConverged();
  // A zombie knows that it is one, or has only zombies to talk to.
  void ExpectHarmless(const Process& zombie);

  // The adversary, and the operator that cleans up after it.
  std::vector<int> Current() const;
  void DoSomethingBad();
  void Kill(int id);
  // The operator starts a replacement and tells the others, now and then late or not at all; what
  // it said is said again once the network is calm.
  void Replace(int id, Duration delay);
  void Push(const event::PeerGone& gone);
  void MakeZombie(int id);  // stopped, replaced, and back again
  void Pause(int id, Duration length);
  void Resume(int id);
  void Split(int id);
  void BreakOneConnection(int id);
  void EndFaults();

  Prng prng_;
  int world_size_;
  TimePoint now_ = kStart;
  uint64_t order_ = 0;
  std::priority_queue<Entry> queue_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<LinkId, Connection> connections_;
  int64_t link_count_ = 0;
  std::set<std::tuple<Epoch, int, int>> data_links_;
  std::set<int> island_;                 // processes that reach only each other
  std::map<int, event::PeerGone> gone_;  // by rank: the operator's newest word
  std::vector<Record> formed_;
  Epoch operator_epoch_;
  bool is_faulty_ = true;
  std::string trace_;
};

}  // namespace lockstep::runtime::testing
