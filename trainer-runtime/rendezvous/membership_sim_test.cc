// The real membership code of a whole gang in a seeded world: connections are slow, messages are
// dropped, repeated and overtake each other, processes die, are replaced, are stopped and come back
// as zombies, and the network splits. One seed replays one run:
//   LOCKSTEP_SEED=17 build/dev/bin/lockstep_runtime_membership_sim_test

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "trainer-runtime/rendezvous/membership.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;

constexpr int kSeedCount = 5000;
constexpr TimePoint kStart{std::chrono::seconds(100)};
constexpr Duration kFaultsFor = std::chrono::seconds(8);
// Silence is noticed after 1.5 s, a wrong call is given up after 1 s, a Meet after at most 8 s.
constexpr Duration kCalmFor = std::chrono::seconds(14);

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

class World {
 public:
  World(uint64_t seed, int world_size) : prng_(seed), world_size_(world_size) {
    for (int rank = 0; rank < world_size_; ++rank) {
      At(Between(0, 300), [this, rank] { Spawn(rank, Incarnation(0)); });
    }
  }

  void Run() {
    for (int fault = 0; fault < 6; ++fault) {
      At(Between(50, 8000), [this] { DoSomethingBad(); });
    }
    At(kFaultsFor, [this] { EndFaults(); });
    while (!queue_.empty() && queue_.top().when < kStart + kFaultsFor + kCalmFor) {
      auto next = queue_.top();
      queue_.pop();
      now_ = next.when;
      next.run();
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
    ExpectConverged();
  }

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

  Duration Between(int64_t min_ms, int64_t max_ms) {
    const auto span = static_cast<uint64_t>((max_ms - min_ms) * 1000 + 1);
    return milliseconds(min_ms) + std::chrono::microseconds(prng_.Below(span));
  }

  // Mostly fast, sometimes slow: so that messages overtake each other.
  Duration NetworkDelay() {
    return Chance(is_faulty_ ? 0.1 : 0.02) ? Between(1, 120) : Between(0, 2);
  }

  bool Chance(double probability) { return prng_.Unit() < probability; }

  void At(Duration delay, std::function<void()> run) {
    queue_.push(Entry{now_ + delay, order_++, std::move(run)});
  }

  void Note(const std::string& text) {
    const auto time = std::chrono::duration_cast<milliseconds>(now_ - kStart).count();
    trace_ += std::to_string(time) + "ms " + text + "\n";
  }

  static std::string Name(const Process& process) {
    return std::to_string(process.rank) + "." + std::to_string(process.incarnation.value());
  }

  bool IsCut(const Process& a, const Process& b) const {
    return island_.contains(a.id) != island_.contains(b.id);
  }

  Process& Of(int id) { return *processes_[static_cast<std::size_t>(id)]; }

  void Spawn(int rank, Incarnation incarnation) {
    auto process = std::make_unique<Process>();
    process->id = static_cast<int>(processes_.size());
    process->rank = rank;
    process->incarnation = incarnation;
    MembershipOptions options;
    options.self.identity = MeshIdentity{"uid", Attempt(0), rank, world_size_, incarnation};
    options.self.host_id = "host";
    options.initial_epoch = operator_epoch_;
    process->epoch_seen = operator_epoch_;
    process->membership = std::make_unique<Membership>(options, now_);
    processes_.push_back(std::move(process));
    const int id = processes_.back()->id;
    Note("start " + Name(Of(id)));
    Deliver(id, event::Tick{});
    RequestMeeting(id, Epoch(0), Between(0, 200));
  }

  void RequestMeeting(int id, Epoch at_least, Duration delay) {
    At(delay, [this, id, at_least] {
      SelfFacts facts;
      facts.last_applied = Step(static_cast<int64_t>(prng_.Below(1000)));
      facts.has_state = Chance(0.5);
      // Patient callers show where nothing but the deadline would help.
      const TimePoint deadline = now_ + (Chance(0.5) ? Between(2000, 8000) : kFaultsFor + kCalmFor);
      Of(id).met.reset();
      Deliver(id, event::MeetRequested{facts, at_least, deadline});
    });
  }

  void Deliver(int id, Event event) {
    Process& process = Of(id);
    if (process.is_dead) {
      return;
    }
    if (process.is_paused) {
      process.inbox.push_back(std::move(event));
      return;
    }
    for (const Action& action : process.membership->Apply(event, now_)) {
      std::visit([this, id](const auto& concrete) { Do(id, concrete); }, action);
    }
    const Epoch epoch = process.membership->epoch();
    EXPECT_GE(epoch, process.epoch_seen) << "epoch of " << Name(process) << " went back";
    process.epoch_seen = epoch;
    ScheduleTick(id);
  }

  void ScheduleTick(int id) {
    if (Of(id).membership->is_superseded()) {
      return;
    }
    const TimePoint due = std::max(Of(id).membership->NextTick(), now_ + milliseconds(1));
    At(due - now_, [this, id] {
      Process& process = Of(id);
      if (!process.is_paused && !process.is_dead && now_ >= process.membership->NextTick()) {
        Deliver(id, event::Tick{});
      }
    });
  }

  // ---- connections ----

  void Do(int id, const action::Dial& dial) {
    const int number = ++Of(id).dial_count;
    Of(id).dial_number[dial.rank] = number;
    At(NetworkDelay(), [this, id, rank = dial.rank, number] { Connect(id, rank, number); });
  }

  bool IsDialing(int id, int rank, int number) {
    const auto found = Of(id).dial_number.find(rank);
    return found != Of(id).dial_number.end() && found->second == number;
  }

  void FailDial(int id, int rank, int number, bool is_superseded) {
    if (!Of(id).is_dead && IsDialing(id, rank, number)) {
      Of(id).dial_number.erase(rank);
      Deliver(id, event::DialFailed{rank, is_superseded});
    }
  }

  void Connect(int id, int rank, int number) {
    if (Of(id).is_dead || !IsDialing(id, rank, number)) {
      return;
    }
    // A name may resolve to a replaced process that still runs.
    std::vector<int> targets;
    for (const auto& process : processes_) {
      if (process->rank == rank && !process->is_dead) {
        targets.push_back(process->id);
      }
    }
    if (targets.empty()) {
      FailDial(id, rank, number, false);
      return;
    }
    const int target = targets[prng_.Below(targets.size())];
    At(milliseconds(1000), [this, id, rank, number] { GiveUpDial(id, rank, number); });
    if (IsCut(Of(id), Of(target))) {
      return;
    }
    const LinkId link(++link_count_);
    connections_[link] = Connection{id, target, number};
    Deliver(id, event::DialConnected{rank});
    At(NetworkDelay(), [this, id, target, link] {
      if (connections_[link].open_at_dialler && !IsCut(Of(id), Of(target))) {
        Deliver(target, event::HelloReceived{link, HelloOf(id)});
      }
    });
  }

  void GiveUpDial(int id, int rank, int number) {
    if (IsDialing(id, rank, number)) {
      CloseDialConnection(id, number);
      FailDial(id, rank, number, false);
    }
  }

  void CloseDialConnection(int id, int number) {
    for (auto& [link, connection] : connections_) {
      if (connection.dialler == id && connection.dial_number == number) {
        CloseEnd(id, link, false);
      }
    }
  }

  Hello HelloOf(int id) {
    const Process& process = Of(id);
    return Hello{MeshIdentity{"uid", Attempt(0), process.rank, world_size_, process.incarnation},
                 "host"};
  }

  void Do(int id, const action::CancelDial& cancel) {
    const int number = Of(id).dial_number[cancel.rank];
    Of(id).dial_number.erase(cancel.rank);
    CloseDialConnection(id, number);
  }

  void Do(int /*id*/, const action::Accept& accept) {
    Connection& connection = connections_[accept.link];
    connection.accepted = true;
    const LinkId link = accept.link;
    if (!connection.open_at_dialler) {  // it hung up in the meantime
      At(NetworkDelay(),
         [this, link] { Hear(connections_[link].acceptor, link, event::LinkLost{link}); });
      return;
    }
    At(NetworkDelay(), [this, link] {
      const Connection& opened = connections_[link];
      const Process& dialler = Of(opened.dialler);
      const int rank = Of(opened.acceptor).rank;
      if (!dialler.is_dead && opened.open_at_dialler &&
          IsDialing(dialler.id, rank, opened.dial_number)) {
        Of(dialler.id).dial_number.erase(rank);
        Deliver(dialler.id, event::DialAccepted{rank, link, HelloOf(opened.acceptor)});
      }
    });
  }

  void Do(int id, const action::Refuse& refuse) {
    Connection& connection = connections_[refuse.link];
    connection.open_at_acceptor = false;
    const bool is_superseded = refuse.reason == Refusal::kSuperseded;
    At(NetworkDelay(), [this, id, connection, is_superseded] {
      FailDial(connection.dialler, Of(id).rank, connection.dial_number, is_superseded);
    });
  }

  void Do(int id, const action::Close& close) { CloseEnd(id, close.link, close.tell_superseded); }

  // Closes one end; the other hears of it if it can.
  void CloseEnd(int id, LinkId link, bool tell_superseded) {
    Connection& connection = connections_[link];
    const bool is_dialler = connection.dialler == id;
    (is_dialler ? connection.open_at_dialler : connection.open_at_acceptor) = false;
    const int other = is_dialler ? connection.acceptor : connection.dialler;
    if (IsCut(Of(id), Of(other))) {
      return;
    }
    At(NetworkDelay(), [this, other, link, tell_superseded] {
      if (tell_superseded) {
        Hear(other, link, event::SupersededNotice{});
      }
      Hear(other, link, event::LinkLost{link});
    });
  }

  // An event of a connection whose end at `id` still stands; LinkLost ends it.
  void Hear(int id, LinkId link, const Event& event) {
    Connection& connection = connections_[link];
    bool& is_open =
        connection.dialler == id ? connection.open_at_dialler : connection.open_at_acceptor;
    if (!is_open || Of(id).is_dead) {
      return;
    }
    if (std::holds_alternative<event::LinkLost>(event)) {
      is_open = false;
      if (connection.dialler == id) {
        FailDial(id, Of(connection.acceptor).rank, connection.dial_number, false);
      }
    }
    Deliver(id, event);
  }

  void Do(int id, const action::Send& send) {
    const Connection& connection = connections_[send.link];
    const int other = connection.dialler == id ? connection.acceptor : connection.dialler;
    const int copies = !is_faulty_ ? 1 : Chance(0.05) ? 0 : Chance(0.05) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      At(NetworkDelay(), [this, id, other, send] {
        if (!IsCut(Of(id), Of(other))) {
          Hear(other, send.link, event::StateReceived{send.link, send.state});
        }
      });
    }
  }

  // ---- meetings ----

  void Do(int id, const action::Formed& formed) {
    CheckFormed(id, formed);
    Of(id).formed = formed;
    if (is_faulty_ && Chance(0.05)) {
      Kill(id);
      return;
    }
    for (int lower = 0; lower < Of(id).rank; ++lower) {
      At(NetworkDelay(), [this, id, lower, epoch = formed.epoch] { Wire(id, lower, epoch); });
    }
    At(Duration::zero(), [this, id] { MaybeReady(id); });
  }

  // One of the two opens the data connection; which one makes no difference here.
  void Wire(int id, int lower, Epoch epoch) {
    const Process& process = Of(id);
    if (process.is_dead || !process.formed.has_value() || process.formed->epoch != epoch) {
      return;
    }
    const Incarnation expected =
        process.formed->members[static_cast<std::size_t>(lower)].incarnation;
    for (const auto& target : processes_) {
      const bool is_it = target->rank == lower && target->incarnation == expected;
      if (is_it && !target->is_dead && !target->is_paused && !IsCut(process, *target) &&
          target->membership->WantsDataLink(process.rank, process.incarnation, epoch)) {
        data_links_.insert({epoch, id, target->id});
        MaybeReady(id);
        MaybeReady(target->id);
        return;
      }
    }
    Deliver(id, event::DataLinkFailed{epoch, lower});
  }

  void MaybeReady(int id) {
    const Process& process = Of(id);
    if (process.is_dead || !process.formed.has_value()) {
      return;
    }
    const Epoch epoch = process.formed->epoch;
    const auto count = std::count_if(data_links_.begin(), data_links_.end(), [&](const auto& link) {
      return std::get<0>(link) == epoch && (std::get<1>(link) == id || std::get<2>(link) == id);
    });
    if (count == world_size_ - 1) {
      Deliver(id, event::DataLinksReady{epoch});
    }
  }

  void Do(int id, const action::Abandon& /*abandon*/) { Of(id).formed.reset(); }

  void Do(int id, const action::Met& met) {
    Process& process = Of(id);
    ASSERT_TRUE(process.formed.has_value());
    process.met = met.epoch;
    process.formed.reset();
    Note(Name(process) + " met at " + std::to_string(met.epoch.value()));
    if (is_faulty_ && Chance(0.03)) {  // a collective failed: meet again
      RequestMeetingIfMet(id, Between(50, 500));
    }
  }

  void RequestMeetingIfMet(int id, Duration delay) {
    At(delay, [this, id] {
      if (!Of(id).is_dead && !Of(id).is_paused && Of(id).met.has_value()) {
        RequestMeeting(id, Epoch(0), Duration::zero());
      }
    });
  }

  void Do(int id, const action::Broken& broken) {
    Process& process = Of(id);
    if (process.met != broken.loss.epoch) {
      return;  // the program asked for a new meeting in the same moment
    }
    process.met.reset();
    Note(Name(process) + " lost " + std::to_string(broken.loss.rank) + " " +
         LossReasonName(broken.loss.reason) + " at " + std::to_string(broken.loss.epoch.value()));
    EXPECT_NE(broken.loss.rank, process.rank);
    RequestMeeting(id, broken.loss.epoch.Next(), Between(0, 300));
  }

  void Do(int id, const action::TimedOut& timed_out) {
    Note(Name(Of(id)) + " timed out, missing " + std::to_string(timed_out.missing.size()));
    RequestMeeting(id, Epoch(0), Between(1, 50));
  }

  void Do(int id, const action::Superseded& /*superseded*/) {
    Note(Name(Of(id)) + " superseded");
    EXPECT_FALSE(Of(id).is_current) << Name(Of(id)) << " was told it is a zombie and is not";
    Of(id).met.reset();
    Of(id).formed.reset();
  }

  // ---- what must always hold ----

  void CheckFormed(int id, const action::Formed& formed) {
    Note(Name(Of(id)) + " formed " + std::to_string(formed.epoch.value()));
    for (const Record& earlier : formed_) {
      CheckAgainst(earlier, formed);
    }
    formed_.push_back(Record{id, formed.epoch, formed.members});
  }

  void CheckAgainst(const Record& earlier, const action::Formed& formed) {
    bool has_common = false;
    bool is_same = true;
    bool is_older = false;
    bool is_newer = false;
    for (std::size_t rank = 0; rank < formed.members.size(); ++rank) {
      const MemberFacts& a = earlier.members[rank];
      const MemberFacts& b = formed.members[rank];
      has_common |= a.incarnation == b.incarnation;
      is_older |= b.incarnation < a.incarnation;
      is_newer |= b.incarnation > a.incarnation;
      is_same &= a.incarnation == b.incarnation && a.last_applied == b.last_applied &&
                 a.has_state == b.has_state;
    }
    if (!has_common) {
      return;
    }
    if (earlier.epoch == formed.epoch) {
      EXPECT_TRUE(is_same) << "two meetings at epoch " << formed.epoch.value();
    } else if (earlier.epoch < formed.epoch) {
      EXPECT_FALSE(is_older) << "a zombie got in at epoch " << formed.epoch.value();
    } else {
      EXPECT_FALSE(is_newer) << "a zombie got in at epoch " << earlier.epoch.value();
    }
  }

  void ExpectConverged() {
    std::optional<Epoch> epoch;
    for (const auto& process : processes_) {
      if (process->is_dead) {
        continue;
      }
      if (!process->is_current) {
        ExpectHarmless(*process);
        continue;
      }
      ASSERT_TRUE(process->met.has_value()) << Name(*process) << " has not met";
      epoch = epoch.value_or(*process->met);
      EXPECT_EQ(*process->met, *epoch) << Name(*process);
    }
    ASSERT_TRUE(epoch.has_value());
    EXPECT_GE(std::count_if(formed_.begin(),
                            formed_.end(),
                            [&](const Record& record) { return record.epoch == *epoch; }),
              world_size_);
  }

  // A zombie knows that it is one, or has only zombies to talk to.
  void ExpectHarmless(const Process& zombie) {
    if (zombie.membership->is_superseded()) {
      return;
    }
    for (const Record& record : formed_) {
      if (record.process != zombie.id || record.epoch != zombie.met) {
        continue;
      }
      for (const auto& process : processes_) {
        const auto rank = static_cast<std::size_t>(process->rank);
        EXPECT_FALSE(process->is_current &&
                     record.members[rank].incarnation == process->incarnation)
            << "zombie " << Name(zombie) << " sits with " << Name(*process);
      }
    }
  }

  // ---- the adversary, and the operator that cleans up ----

  std::vector<int> Current() const {
    std::vector<int> ids;
    for (const auto& process : processes_) {
      if (!process->is_dead && process->is_current && !process->is_paused) {
        ids.push_back(process->id);
      }
    }
    return ids;
  }

  void DoSomethingBad() {
    const std::vector<int> ids = Current();
    if (!is_faulty_ || ids.empty()) {
      return;
    }
    const int victim = ids[prng_.Below(ids.size())];
    switch (prng_.Below(6)) {
      case 0:
        Kill(victim);
        break;
      case 1:
        Kill(victim);
        Kill(ids[prng_.Below(ids.size())]);
        break;
      case 2:
        MakeZombie(victim);
        break;
      case 3:
        Pause(victim, Between(10, 3000));
        break;
      case 4:
        Split(victim);
        break;
      default:
        BreakOneConnection(victim);
        break;
    }
  }

  void Kill(int id) {
    Process& process = Of(id);
    if (process.is_dead) {
      return;
    }
    Note("kill " + Name(process));
    process.is_dead = true;
    for (auto& [link, connection] : connections_) {
      if (connection.dialler == id || connection.acceptor == id) {
        CloseEnd(id, link, false);
      }
    }
    if (process.is_current) {
      process.is_current = false;
      Replace(id, Between(50, 900));
    }
  }

  // The operator starts a replacement and tells the others, now and then late or not at all; what
  // it said is said again once the network is calm.
  void Replace(int id, Duration delay) {
    const int rank = Of(id).rank;
    const Incarnation next = Of(id).incarnation.Next();
    // The operator knows epochs from status documents, which may be old.
    operator_epoch_ = operator_epoch_.Next();
    if (Chance(0.5)) {
      for (const int other : Current()) {
        operator_epoch_ = std::max(operator_epoch_, Of(other).epoch_seen);
      }
    }
    At(delay, [this, rank, next] { Spawn(rank, next); });
    gone_[rank] = event::PeerGone{rank, next, operator_epoch_};
    if (Chance(0.5)) {
      Push(gone_[rank]);
    }
  }

  void Push(const event::PeerGone& gone) {
    for (const int other : Current()) {
      At(NetworkDelay(), [this, other, gone] { Deliver(other, gone); });
    }
  }

  // Stopped, replaced, and back again.
  void MakeZombie(int id) {
    Note("stop for good " + Name(Of(id)));
    Pause(id, Between(1500, 7500));
    At(Between(500, 2500), [this, id] {
      if (!Of(id).is_dead && Of(id).is_current) {
        Of(id).is_current = false;
        Replace(id, Between(50, 900));
      }
    });
  }

  void Pause(int id, Duration length) {
    Note("stop " + Name(Of(id)));
    Of(id).is_paused = true;
    At(length, [this, id] { Resume(id); });
  }

  void Resume(int id) {
    Process& process = Of(id);
    if (process.is_dead || !process.is_paused) {
      return;
    }
    Note("continue " + Name(process));
    process.is_paused = false;
    for (Event& event : std::exchange(process.inbox, {})) {
      Deliver(id, std::move(event));
    }
    Deliver(id, event::Tick{});
  }

  void Split(int id) {
    Note("cut off " + Name(Of(id)));
    island_.insert(id);
    At(Between(50, 4000), [this, id] {
      Note("joined up " + Name(Of(id)));
      island_.erase(id);
    });
  }

  void BreakOneConnection(int id) {
    for (auto& [link, connection] : connections_) {
      const bool is_mine = connection.dialler == id || connection.acceptor == id;
      if (is_mine && connection.accepted && connection.open_at_dialler &&
          connection.open_at_acceptor) {
        const int other = connection.dialler == id ? connection.acceptor : connection.dialler;
        Note("break " + Name(Of(id)) + " - " + Name(Of(other)));
        At(NetworkDelay(), [this, id, other, broken = link] {
          Hear(id, broken, event::LinkLost{broken});
          Hear(other, broken, event::LinkLost{broken});
        });
        return;
      }
    }
  }

  void EndFaults() {
    Note("calm");
    is_faulty_ = false;
    island_.clear();
    for (std::size_t id = 0; id < processes_.size(); ++id) {
      Resume(static_cast<int>(id));
    }
    At(Between(1, 2000), [this] {
      for (const auto& [rank, gone] : gone_) {
        Push(gone);
      }
    });
  }

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

bool RunSeed(uint64_t seed) {
  World world(seed, 2 + static_cast<int>(seed % 4));
  world.Run();
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << "replay with LOCKSTEP_SEED=" << seed << "\n" << world.Trace();
    return false;
  }
  return true;
}

TEST(MembershipSimulation, EveryLiveRankMeetsAtOneEpochAndNoZombieGetsIn) {
  if (const char* seed = std::getenv("LOCKSTEP_SEED"); seed != nullptr) {
    RunSeed(std::strtoull(seed, nullptr, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    if (!RunSeed(seed)) {
      return;
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
