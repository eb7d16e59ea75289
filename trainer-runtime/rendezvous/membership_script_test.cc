#include <array>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "common/base/testing/paths.h"
#include "common/base/testing/script.h"
#include "trainer-runtime/rendezvous/membership.h"

// Stories in text: each block of script/*.txt is what happens to a gang, a line "----", and what
// its ranks do. LOCKSTEP_REWRITE=1 in the environment writes the answers anew; the diff is then
// read. One event at a time, in the order in which they came about; nothing is late or lost but on
// order.
//
//   world N              N ranks at epoch 4, none of which runs
//   start RANK...        the next process of each: incarnation 0, then 1 and so on
//   meet RANK...         asks to meet, with ten seconds for it, unless it waits already
//   kill|freeze|thaw RANK...   links of the dead close; the frozen hear all of it when they thaw,
//                        replaced or not
//   starve RANK...       as freeze, but the kernel says that it wants to run
//   apart RANK...        those that start from now on do so on a host of their own
//   cut|heal RANK...     nothing passes between these and the others
//   gone RANK            the operator tells all others that the newest process stands for it
//   finish RANK          knows that all ranks have done all their work
//   advance MS           time passes, in steps of 50 ms; what a heartbeat says is not told
//   peers RANK           what it knows of the others

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr Duration kTimeStep = milliseconds(50);
constexpr Duration kMeetPatience = std::chrono::seconds(10);
constexpr std::array<const char*, 5> kSightNames = {
    "unseen", "running", "strained", "starved", "stopped"};
constexpr int64_t kCpuMilli = 4000;
constexpr int kEventsMax = 100'000;  // a story that never comes to rest fails

struct Process {
  int rank = 0;
  Incarnation incarnation;
  Membership membership;
  bool is_frozen = false;
  bool is_starved = false;  // frozen for want of a core
  bool is_alive = true;
  bool is_meeting = false;
  std::vector<Event> unheard = {};
  std::map<int, MemberState> said = {};  // by rank, the newest that was sent
};

// Both ends of a control connection know it by one id.
struct Wire {
  Process* dialler = nullptr;
  Process* acceptor = nullptr;
};

std::string DescribeState(const MemberState& state) {
  std::string text = "epoch " + std::to_string(state.epoch.value());
  text += state.joined ? ", joined" : "";
  text += state.agreement != 0 ? ", agreed" : "";
  text += state.finished ? ", finished" : "";
  if (state.culprit.rank >= 0) {
    text += ", " + std::to_string(state.culprit.ended.value()) + " ended by rank " +
            std::to_string(state.culprit.rank) + " " + LossReasonName(state.culprit.reason);
  }
  for (const Testimony& testimony : state.silent) {
    text += ", " + std::to_string(testimony.rank) + " is silent (" +
            kSightNames.at(static_cast<std::size_t>(testimony.sight)) + ")";
  }
  return text;
}

// What is worth telling again: two heartbeats that say the same are not.
bool SaysTheSame(const MemberState& a, const MemberState& b) {
  return DescribeState(a) == DescribeState(b);
}

bool IsOfDial(const Event& event, int rank) {
  const auto* const connected = std::get_if<event::DialConnected>(&event);
  const auto* const accepted = std::get_if<event::DialAccepted>(&event);
  const auto* const failed = std::get_if<event::DialFailed>(&event);
  return (connected != nullptr && connected->rank == rank) ||
         (accepted != nullptr && accepted->rank == rank) ||
         (failed != nullptr && failed->rank == rank);
}

class Story {
 public:
  std::string Run(const std::string& line);

 private:
  using Command = void (Story::*)(int number);

  static const std::map<std::string, Command>& Commands();

  void World(int size);
  void Start(int rank);
  void Meet(int rank);
  void Kill(int rank);

  void Freeze(int rank) { Of(rank).is_frozen = true; }

  void Starve(int rank) { Of(rank).is_frozen = Of(rank).is_starved = true; }

  void Apart(int rank) { apart_.insert(rank); }

  void Thaw(int rank);
  void Cut(int rank);

  void Heal(int /*rank*/) { island_.clear(); }

  void Gone(int rank);

  void Finish(int rank) { Hand(&Of(rank), event::Finished{}); }

  void Advance(int length_ms);
  void TellPeers(int rank);

  Hello HelloOf(int rank, Incarnation incarnation) const {
    const std::string host = apart_.count(rank) > 0 ? "host-" + std::to_string(rank) : "host";
    return Hello{MeshIdentity{"uid", Attempt(1), rank, world_size_, incarnation},
                 host,
                 Seat{1, ThreadOf(rank, incarnation), kCpuMilli}};
  }

  static int64_t ThreadOf(int rank, Incarnation incarnation) {
    constexpr int64_t kIncarnations = 100;
    return 1 + rank * kIncarnations + incarnation.value();
  }

  Process& Of(int rank) {
    LOCKSTEP_CHECK(newest_.count(rank) > 0, "no process of rank " + std::to_string(rank));
    return *newest_.at(rank);
  }

  bool IsReachable(const Process& from, const Process& to) const {
    return to.is_alive && island_.count(from.rank) == island_.count(to.rank);
  }

  // The event is heard after all that came about before it.
  void Hand(Process* process, Event event) { queue_.emplace_back(process, std::move(event)); }

  void Settle();
  void Apply(Process* process, const Event& event);
  void Tell(const Process& process, const std::string& what);
  Process* OtherEnd(const Process& process, LinkId link);
  void EndLink(LinkId link);

  void Do(Process* process, const action::Dial& dial);
  void Do(Process* process, const action::CancelDial& cancel);
  void Do(Process* process, const action::Accept& accept);
  void Do(Process* process, const action::Refuse& refuse);
  void Do(Process* process, const action::Close& close);
  void Do(Process* process, const action::Send& send);
  void Do(Process* process, const action::Look& look);
  void Do(Process* process, const action::Formed& formed);
  void Do(Process* process, const action::Abandon& abandon);
  void Do(Process* process, const action::Met& met);
  void Do(Process* process, const action::PlansDiffer& plans_differ);
  void Do(Process* process, const action::Broken& broken);
  void Do(Process* process, const action::TimedOut& timed_out);
  void Do(Process* process, const action::NobodyNeeded& nobody_needed);
  void Do(Process* process, const action::Superseded& superseded);

  int world_size_ = 0;
  TimePoint now_{std::chrono::seconds(100)};
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<int, Process*> newest_;  // by rank
  std::map<LinkId, Wire> wires_;
  int64_t link_count_ = 0;
  std::set<int> island_;
  std::set<int> apart_;
  std::deque<std::pair<Process*, Event>> queue_;
  std::string told_;
};

// --- What a line asks for ---

void Story::World(int size) {
  *this = Story();
  world_size_ = size;
}

void Story::Start(int rank) {
  const Incarnation incarnation =
      newest_.count(rank) > 0 ? Incarnation(Of(rank).incarnation.value() + 1) : Incarnation(0);
  const Hello hello = HelloOf(rank, incarnation);
  processes_.push_back(std::make_unique<Process>(
      Process{rank, incarnation, Membership(MembershipOptions{hello, Epoch(4)}, now_)}));
  newest_[rank] = processes_.back().get();
  Hand(newest_[rank], event::Tick{});
}

void Story::Meet(int rank) {
  if (Of(rank).is_meeting) {
    Tell(Of(rank), "waits already");
    return;
  }
  Of(rank).is_meeting = true;
  Hand(&Of(rank), event::MeetRequested{SelfFacts{}, Epoch(0), now_ + kMeetPatience});
}

void Story::Kill(int rank) {
  Process& process = Of(rank);
  process.is_alive = false;
  const std::map<LinkId, Wire> before = wires_;
  for (const auto& [link, wire] : before) {
    if (wire.dialler == &process || wire.acceptor == &process) {
      Process* const other = OtherEnd(process, link);
      EndLink(link);
      if (IsReachable(process, *other)) {
        Hand(other, event::LinkLost{link});
      }
    }
  }
}

void Story::Thaw(int rank) {
  for (const auto& process : processes_) {
    if (process->rank != rank || !process->is_frozen) {
      continue;
    }
    process->is_frozen = process->is_starved = false;
    for (Event& event : std::exchange(process->unheard, {})) {
      Hand(process.get(), std::move(event));
    }
    Hand(process.get(), event::Tick{});
  }
}

void Story::Cut(int rank) {
  island_.insert(rank);
}

void Story::Gone(int rank) {
  for (const auto& [other, process] : newest_) {
    if (other != rank) {
      Hand(process, event::PeerGone{rank, Of(rank).incarnation, Epoch(0)});
    }
  }
}

void Story::Advance(int length_ms) {
  for (const TimePoint end = now_ + milliseconds(length_ms); now_ < end;) {
    now_ += kTimeStep;
    for (const auto& process : processes_) {
      if (now_ >= process->membership.NextTick()) {
        Hand(process.get(), event::Tick{});
      }
    }
    Settle();
  }
}

void Story::TellPeers(int rank) {
  for (const PeerStatus& peer : Of(rank).membership.Peers(now_)) {
    Tell(Of(rank),
         "knows rank " + std::to_string(peer.rank) + "." +
             std::to_string(peer.incarnation.value()) + " " +
             std::string(PeerStateName(peer.state)) +
             (peer.reason.empty() ? "" : " (" + peer.reason + ")"));
  }
}

// --- What comes of it ---

void Story::Settle() {
  for (int count = 0; !queue_.empty(); ++count) {
    LOCKSTEP_CHECK(count < kEventsMax, "the gang never comes to rest");
    auto [process, event] = std::move(queue_.front());
    queue_.pop_front();
    if (process->is_frozen) {
      process->unheard.push_back(std::move(event));
    } else if (process->is_alive) {
      Apply(process, event);
    }
  }
}

void Story::Apply(Process* process, const Event& event) {
  for (const Action& action : process->membership.Apply(event, now_)) {
    std::visit([&](const auto& concrete) { Do(process, concrete); }, action);
  }
}

void Story::Tell(const Process& process, const std::string& what) {
  told_ += std::to_string(process.rank) + "." + std::to_string(process.incarnation.value()) + " " +
           what + "\n";
}

Process* Story::OtherEnd(const Process& process, LinkId link) {
  const auto wire = wires_.find(link);
  if (wire == wires_.end()) {
    return nullptr;
  }
  return wire->second.dialler == &process ? wire->second.acceptor : wire->second.dialler;
}

void Story::EndLink(LinkId link) {
  wires_.erase(link);
}

void Story::Do(Process* process, const action::Dial& dial) {
  const auto target = newest_.find(dial.rank);
  if (target == newest_.end() || !IsReachable(*process, *target->second)) {
    Hand(process, event::DialFailed{dial.rank, false});
    return;
  }
  const LinkId link(++link_count_);
  wires_[link] = Wire{process, target->second};
  Hand(process, event::DialConnected{dial.rank});
  Hand(target->second, event::HelloReceived{link, HelloOf(process->rank, process->incarnation)});
}

// Nothing of the call is heard any more, on either side.
void Story::Do(Process* process, const action::CancelDial& cancel) {
  std::set<LinkId> cancelled;
  for (const auto& [link, wire] : wires_) {
    if (wire.dialler == process && wire.acceptor->rank == cancel.rank) {
      cancelled.insert(link);
    }
  }
  std::erase_if(queue_, [&](const std::pair<Process*, Event>& entry) {
    const auto* const hello = std::get_if<event::HelloReceived>(&entry.second);
    return (entry.first == process && IsOfDial(entry.second, cancel.rank)) ||
           (hello != nullptr && cancelled.count(hello->link) > 0);
  });
  std::erase_if(wires_, [&](const auto& entry) { return cancelled.count(entry.first) > 0; });
}

void Story::Do(Process* process, const action::Accept& accept) {
  Process* const dialler = OtherEnd(*process, accept.link);
  if (dialler == nullptr) {
    Hand(process, event::LinkLost{accept.link});
    return;
  }
  Tell(*process, "accepts " + std::to_string(dialler->rank));
  Hand(dialler,
       event::DialAccepted{
           process->rank, accept.link, HelloOf(process->rank, process->incarnation)});
}

void Story::Do(Process* process, const action::Refuse& refuse) {
  Process* const dialler = OtherEnd(*process, refuse.link);
  EndLink(refuse.link);
  if (dialler != nullptr) {
    Tell(*process, "refuses " + std::to_string(dialler->rank) + ": " + RefusalName(refuse.reason));
    Hand(dialler, event::DialFailed{process->rank, refuse.reason == Refusal::kSuperseded});
  }
}

void Story::Do(Process* process, const action::Close& close) {
  Process* const other = OtherEnd(*process, close.link);
  EndLink(close.link);
  if (other == nullptr) {
    return;
  }
  Tell(*process, "closes its link to " + std::to_string(other->rank));
  if (IsReachable(*process, *other)) {
    Hand(other,
         close.tell_superseded ? Event(event::SupersededNotice{}) : event::LinkLost{close.link});
  }
}

void Story::Do(Process* process, const action::Send& send) {
  Process* const other = OtherEnd(*process, send.link);
  if (other == nullptr || !IsReachable(*process, *other)) {
    return;
  }
  const auto before = process->said.find(other->rank);
  if (before == process->said.end() || !SaysTheSame(before->second, send.state)) {
    Tell(*process, "to " + std::to_string(other->rank) + ": " + DescribeState(send.state));
  }
  process->said[other->rank] = send.state;
  Hand(other, event::StateReceived{send.link, send.state});
}

void Story::Do(Process* process, const action::Look& look) {
  Sight sight = Sight::kUnseen;
  for (const auto& other : processes_) {
    if (other->is_alive && ThreadOf(other->rank, other->incarnation) == look.thread) {
      sight = other->is_starved  ? Sight::kStarved
              : other->is_frozen ? Sight::kStopped
                                 : Sight::kRunning;
    }
  }
  Hand(process, event::Seen{look.link, sight});
}

void Story::Do(Process* process, const action::Formed& formed) {
  std::string members;
  for (const MemberFacts& member : formed.members) {
    members += " " + std::to_string(member.rank) + "." + std::to_string(member.incarnation.value());
  }
  Tell(*process, "forms epoch " + std::to_string(formed.epoch.value()) + " of" + members);
  Hand(process, event::DataLinksReady{formed.epoch});
}

void Story::Do(Process* process, const action::Abandon& /*abandon*/) {
  Tell(*process, "abandons what it formed");
}

void Story::Do(Process* process, const action::Met& met) {
  process->is_meeting = false;
  Tell(*process, "has met at epoch " + std::to_string(met.epoch.value()));
}

void Story::Do(Process* process, const action::PlansDiffer& plans_differ) {
  process->is_meeting = false;
  Tell(*process, "is told that rank " + std::to_string(plans_differ.rank) + " has another plan");
}

void Story::Do(Process* process, const action::Broken& broken) {
  Tell(*process,
       "lost epoch " + std::to_string(broken.loss.epoch.value()) + " by rank " +
           std::to_string(broken.loss.rank) + "." +
           std::to_string(broken.loss.incarnation.value()) + " " +
           LossReasonName(broken.loss.reason));
}

void Story::Do(Process* process, const action::TimedOut& timed_out) {
  std::string missing;
  for (const int rank : timed_out.missing) {
    missing += " " + std::to_string(rank);
  }
  process->is_meeting = false;
  Tell(*process, "gives up meeting, missing" + missing);
}

void Story::Do(Process* process, const action::NobodyNeeded& /*nobody_needed*/) {
  process->is_meeting = false;
  Tell(*process, "need not meet: all work is done");
}

void Story::Do(Process* process, const action::Superseded& /*superseded*/) {
  process->is_meeting = false;
  Tell(*process, "is a zombie");
}

const std::map<std::string, Story::Command>& Story::Commands() {
  static const std::map<std::string, Command> kCommands = {{"world", &Story::World},
                                                           {"start", &Story::Start},
                                                           {"meet", &Story::Meet},
                                                           {"kill", &Story::Kill},
                                                           {"freeze", &Story::Freeze},
                                                           {"starve", &Story::Starve},
                                                           {"apart", &Story::Apart},
                                                           {"thaw", &Story::Thaw},
                                                           {"cut", &Story::Cut},
                                                           {"heal", &Story::Heal},
                                                           {"gone", &Story::Gone},
                                                           {"finish", &Story::Finish},
                                                           {"advance", &Story::Advance},
                                                           {"peers", &Story::TellPeers}};
  return kCommands;
}

std::string Story::Run(const std::string& line) {
  const Words words = ScriptWords(line);
  const auto command = Commands().find(words.at(0));
  if (command == Commands().end()) {
    return "no such command: " + words.at(0) + "\n";
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    (this->*command->second)(std::stoi(words[i]));
  }
  Settle();
  return std::exchange(told_, "");
}

class MembershipScripts : public testing::TestWithParam<std::string> {};

TEST_P(MembershipScripts, AreAnsweredAsWritten) {
  Story story;
  ExpectScriptAnswered(RepositoryFile("trainer-runtime/rendezvous/script/" + GetParam()),
                       [&story](const std::string& line) { return story.Run(line); });
}

INSTANTIATE_TEST_SUITE_P(
    Membership,
    MembershipScripts,
    testing::ValuesIn(ScriptNames(RepositoryFile("trainer-runtime/rendezvous/script"))),
    ScriptTestName);

}  // namespace
}  // namespace lockstep::runtime
