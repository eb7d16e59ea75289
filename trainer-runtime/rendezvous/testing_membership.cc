#include "trainer-runtime/rendezvous/testing_membership.h"

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace lockstep::runtime::testing {

using std::chrono::milliseconds;

World::World(uint64_t seed, int world_size) : prng_(seed), world_size_(world_size) {
  for (int rank = 0; rank < world_size_; ++rank) {
    At(Between(0, 300), [this, rank] { Spawn(rank, Incarnation(0)); });
  }
}

void World::Run() {
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

Duration World::Between(int64_t min_ms, int64_t max_ms) {
  const auto span = static_cast<uint64_t>((max_ms - min_ms) * 1000 + 1);
  return milliseconds(min_ms) + std::chrono::microseconds(prng_.Below(span));
}

Duration World::NetworkDelay() {
  return Chance(is_faulty_ ? 0.1 : 0.02) ? Between(1, 120) : Between(0, 2);
}

void World::At(Duration delay, std::function<void()> run) {
  queue_.push(Entry{now_ + delay, order_++, std::move(run)});
}

void World::Note(const std::string& text) {
  const auto time = std::chrono::duration_cast<milliseconds>(now_ - kStart).count();
  trace_ += std::to_string(time) + "ms " + text + "\n";
}

std::string World::Name(const Process& process) {
  return std::to_string(process.rank) + "." + std::to_string(process.incarnation.value());
}

bool World::IsCut(const Process& a, const Process& b) const {
  return island_.contains(a.id) != island_.contains(b.id);
}

void World::Spawn(int rank, Incarnation incarnation) {
  auto process = std::make_unique<Process>();
  process->id = static_cast<int>(processes_.size());
  process->rank = rank;
  process->incarnation = incarnation;
  MembershipOptions options;
  options.self = HelloOf(rank, incarnation);
  options.initial_epoch = operator_epoch_;
  process->epoch_seen = operator_epoch_;
  process->membership = std::make_unique<Membership>(options, now_);
  processes_.push_back(std::move(process));
  const int id = processes_.back()->id;
  Note("start " + Name(Of(id)));
  Deliver(id, event::Tick{});
  RequestMeeting(id, Epoch(0), Between(0, 200));
}

void World::RequestMeeting(int id, Epoch at_least, Duration delay) {
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

void World::Deliver(int id, Event event) {
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
  EXPECT_GE(epoch, process.epoch_seen) << "epoch of " << Name(process) << " decreased";
  process.epoch_seen = epoch;
  ScheduleTick(id);
}

void World::ScheduleTick(int id) {
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

void World::Do(int id, const action::Dial& dial) {
  const int number = ++Of(id).dial_count;
  Of(id).dial_number[dial.rank] = number;
  At(NetworkDelay(), [this, id, rank = dial.rank, number] { Connect(id, rank, number); });
}

bool World::IsDialing(int id, int rank, int number) {
  const auto found = Of(id).dial_number.find(rank);
  return found != Of(id).dial_number.end() && found->second == number;
}

void World::FailDial(int id, int rank, int number, bool is_superseded) {
  if (!Of(id).is_dead && IsDialing(id, rank, number)) {
    Of(id).dial_number.erase(rank);
    Deliver(id, event::DialFailed{rank, is_superseded});
  }
}

void World::Connect(int id, int rank, int number) {
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

void World::GiveUpDial(int id, int rank, int number) {
  if (IsDialing(id, rank, number)) {
    CloseDialConnection(id, number);
    FailDial(id, rank, number, false);
  }
}

void World::CloseDialConnection(int id, int number) {
  for (auto& [link, connection] : connections_) {
    if (connection.dialler == id && connection.dial_number == number) {
      CloseEnd(id, link, false);
    }
  }
}

// Two ranks are on one host each.
Hello World::HelloOf(int rank, Incarnation incarnation) const {
  return Hello{MeshIdentity{"uid", Attempt(0), rank, world_size_, incarnation},
               "host-" + std::to_string(rank / 2),
               Seat{1, ThreadOf(rank, incarnation), kCpuMilli}};
}

int64_t World::ThreadOf(int rank, Incarnation incarnation) {
  return 1 + incarnation.value() * kRanksMax + rank;
}

Hello World::HelloOf(int id) const {
  const Process& process = *processes_[static_cast<std::size_t>(id)];
  return HelloOf(process.rank, process.incarnation);
}

// Now and then the kernel does not tell.
void World::Do(int id, const action::Look& look) {
  Sight sight = Sight::kUnseen;
  for (const auto& other : processes_) {
    if (!other->is_dead && ThreadOf(other->rank, other->incarnation) == look.thread &&
        !Chance(0.2)) {
      sight = !other->is_paused ? Sight::kRunning : Chance(0.5) ? Sight::kStopped : Sight::kStarved;
    }
  }
  At(Duration::zero(), [this, id, link = look.link, sight] {
    Deliver(id, event::Seen{link, sight});
  });
}

void World::Do(int id, const action::CancelDial& cancel) {
  const int number = Of(id).dial_number[cancel.rank];
  Of(id).dial_number.erase(cancel.rank);
  CloseDialConnection(id, number);
}

void World::Do(int /*id*/, const action::Accept& accept) {
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

void World::Do(int id, const action::Refuse& refuse) {
  Connection& connection = connections_[refuse.link];
  connection.open_at_acceptor = false;
  const bool is_superseded = refuse.reason == Refusal::kSuperseded;
  At(NetworkDelay(), [this, id, connection, is_superseded] {
    FailDial(connection.dialler, Of(id).rank, connection.dial_number, is_superseded);
  });
}

void World::Do(int id, const action::Close& close) {
  CloseEnd(id, close.link, close.tell_superseded);
}

void World::CloseEnd(int id, LinkId link, bool tell_superseded) {
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

void World::Hear(int id, LinkId link, const Event& event) {
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

void World::Do(int id, const action::Send& send) {
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

}  // namespace lockstep::runtime::testing
