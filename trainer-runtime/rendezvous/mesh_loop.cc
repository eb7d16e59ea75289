#include "trainer-runtime/rendezvous/mesh_loop.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "common/base/check.h"
#include "common/process/cores.h"

namespace lockstep::runtime {
namespace {

// Where others on this host can look at the calling thread.
Seat OwnSeat() {
  constexpr const char* kPidNamespacePath = "/proc/self/ns/pid";  // namespaces(7)

  struct stat place {};

  Seat seat;
  seat.pid_namespace = ::stat(kPidNamespacePath, &place) == 0 ? place.st_ino : 0;
  seat.thread = ::gettid();
  seat.cpu_milli = ReadCpuMilli("", CountCores());
  return seat;
}

MeshLoopOptions Seated(MeshLoopOptions options) {
  options.membership.self.seat = OwnSeat();
  return options;
}

}  // namespace

MeshLoop::MeshLoop(MeshLoopOptions options)
    : options_(Seated(std::move(options))),
      membership_(options_.membership, SteadyNow()),
      reception_(ReceptionOptions{std::move(options_.listener),
                                  options_.membership.self,
                                  options_.job_key,
                                  static_cast<std::size_t>(world_size()) * 4 + 64,
                                  options_.logger}),
      dialer_(options_.job_key),
      now_(SteadyNow()) {}

void MeshLoop::Run() {
  Feed(event::Tick{});
  while (is_running_) {
    WaitForWork();
    Publish();
  }
}

// Everything that has arrived is handed in before the tick: a peer is not silent because nobody
// listened.
void MeshLoop::WaitForWork() {
  PollSet poll;
  poll.Watch(options_.mailbox->fd());
  reception_.Watch(&poll, now_);
  dialer_.Watch(&poll);
  for (const auto& [id, link] : links_) {
    poll.Watch(link.socket.fd(), link.socket.has_unsent());
  }
  poll.Wait(SteadyNow(),
            std::min({membership_.NextTick(), reception_.NextTimeout(), dialer_.NextTimeout()}));
  now_ = SteadyNow();
  ReadLinks(poll);
  ReadVisitors(poll);
  ReadCalls(poll);
  ReadMail();
  Feed(event::Tick{});
}

void MeshLoop::ReadLinks(const PollSet& poll) {
  std::vector<LinkId> ready;
  for (const auto& [id, link] : links_) {
    if (poll.IsReady(link.socket.fd())) {
      ready.push_back(id);
    }
  }
  for (const LinkId id : ready) {
    // What one link brings may close others.
    while (links_.contains(id) && ReadLink(id)) {
    }
  }
}

// Whether there may be more to read.
bool MeshLoop::ReadLink(LinkId id) {
  FramedSocket& socket = links_.at(id).socket;
  const Status flushed = socket.Flush();
  Result<std::optional<std::string>> body = socket.Read();
  if (body.ok() && !body->has_value() && flushed.ok()) {
    return false;
  }
  if (body.ok() && body->has_value()) {  // also from a peer that takes nothing any more
    const Result<Frame> frame = DecodeFrame(**body);
    if (frame.ok() && std::holds_alternative<MemberState>(*frame)) {
      Feed(event::StateReceived{id, std::get<MemberState>(*frame)});
      return true;
    }
    if (frame.ok() && std::holds_alternative<SupersededFrame>(*frame)) {
      Feed(event::SupersededNotice{});
      return true;
    }
    body = Error(ErrorCode::kCorrupt, "unexpected frame on a link");
  }
  const Error& error = body.ok() ? flushed.error() : body.error();
  const int rank = links_.at(id).rank;
  call_errors_[rank] = error.ToString();
  options_.logger->Debug("link to peer lost", {{"rank", rank}, {"error", error.ToString()}});
  links_.erase(id);
  Feed(event::LinkLost{id});
  return false;
}

void MeshLoop::ReadVisitors(const PollSet& poll) {
  for (Visitor& visitor : reception_.Advance(poll, now_)) {
    if (visitor.hello.kind == LinkKind::kData) {
      OnDataVisitor(std::move(visitor));
      continue;
    }
    last_link_ = last_link_.Next();
    undecided_.emplace(last_link_,
                       Link{visitor.hello.hello.identity.rank, std::move(visitor.socket), {}});
    Feed(event::HelloReceived{last_link_, visitor.hello.hello});
  }
}

void MeshLoop::OnDataVisitor(Visitor visitor) {
  const MeshIdentity& caller = visitor.hello.hello.identity;
  const MeshIdentity& self = options_.membership.self.identity;
  const bool is_wanted =
      caller.attempt == self.attempt && caller.world_size == self.world_size &&
      membership_.WantsDataLink(caller.rank, caller.incarnation, visitor.hello.epoch);
  const VerdictFrame verdict{is_wanted, Refusal::kStaleEpoch, membership_.epoch(), {}};
  const Status written = visitor.socket.Write(EncodeFrame(verdict));
  if (is_wanted && written.ok() && !visitor.socket.has_unsent()) {
    data_links_[caller.rank] = DataLink{std::move(visitor.socket).Release(), visitor.hello.epoch};
    CheckWired();
  }
}

void MeshLoop::ReadCalls(const PollSet& poll) {
  for (CallOutcome& outcome : dialer_.Advance(poll, now_)) {
    if (!calls_.contains(outcome.key)) {
      continue;  // cancelled by an outcome before it in this round
    }
    if (outcome.key.kind == LinkKind::kControl) {
      OnControlOutcome(std::move(outcome));
    } else {
      OnDataOutcome(std::move(outcome));
    }
  }
}

void MeshLoop::OnControlOutcome(CallOutcome outcome) {
  const int rank = outcome.key.rank;
  switch (outcome.kind) {
    case CallOutcome::Kind::kConnected:
      Feed(event::DialConnected{rank});
      return;
    case CallOutcome::Kind::kFailed:
      FailCall(outcome.key, outcome.is_superseded, outcome.errors);
      return;
    case CallOutcome::Kind::kAccepted:
      calls_.erase(outcome.key);
      last_link_ = last_link_.Next();
      links_.emplace(last_link_, Link{rank, std::move(*outcome.socket), outcome.address});
      Feed(event::DialAccepted{rank, last_link_, outcome.peer});
      return;
  }
}

void MeshLoop::OnDataOutcome(CallOutcome outcome) {
  if (outcome.kind == CallOutcome::Kind::kFailed) {
    FailCall(outcome.key, outcome.is_superseded, outcome.errors);
  } else if (outcome.kind == CallOutcome::Kind::kAccepted) {
    calls_.erase(outcome.key);
    LOCKSTEP_CHECK(formed_.has_value(), "a data connection opened after its rendezvous had ended");
    data_links_[outcome.key.rank] = DataLink{std::move(*outcome.socket).Release(), formed_->epoch};
    CheckWired();
  }
}

void MeshLoop::ReadMail() {
  for (const Letter& letter : options_.mailbox->Take()) {
    std::visit([this](const auto& concrete) { OnLetter(concrete); }, letter);
  }
}

void MeshLoop::OnLetter(const event::MeetRequested& letter) {
  is_meet_pending_ = true;
  Feed(letter);
}

void MeshLoop::OnLetter(const event::MeetWithdrawn& letter) {
  Feed(letter);
  Deliver(Error(ErrorCode::kAborted, "rendezvous was stopped on request"));
}

void MeshLoop::OnLetter(const event::Finished& letter) {
  Feed(letter);
}

void MeshLoop::OnLetter(const event::PeerGone& letter) {
  Feed(letter);
}

void MeshLoop::OnLetter(const NameResolved& letter) {
  const auto call = calls_.find(letter.key);
  if (call == calls_.end() || call->second.number != letter.call) {
    return;  // cancelled meanwhile
  }
  if (letter.addresses.ok()) {
    StartCall(letter.key, *letter.addresses);
  } else {
    FailCall(letter.key, false, letter.addresses.error().ToString());
  }
}

void MeshLoop::OnLetter(const Shutdown& /*letter*/) {
  is_running_ = false;
  Deliver(Error(ErrorCode::kAborted, "the mesh was shut down"));
}

void MeshLoop::Publish() {
  std::vector<PeerStatus> peers = membership_.Peers(now_);
  for (PeerStatus& peer : peers) {
    const auto error = call_errors_.find(peer.rank);
    if (peer.state == PeerState::kMissing && error != call_errors_.end()) {
      peer.reason = error->second;
    }
  }
  const std::lock_guard<std::mutex> lock(options_.board->mutex);
  options_.board->epoch = membership_.epoch();
  options_.board->peers = std::move(peers);
  options_.board->has_finished = membership_.has_finished();
  const bool is_known = membership_.IsFinishKnown();
  if (std::exchange(options_.board->is_finish_known, is_known) != is_known) {
    options_.board->changed.notify_all();
  }
}

}  // namespace lockstep::runtime
