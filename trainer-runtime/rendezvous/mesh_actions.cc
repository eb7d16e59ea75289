#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "trainer-runtime/rendezvous/mesh_loop.h"

// What the membership orders, done with sockets.

namespace lockstep::runtime {

void MeshLoop::Feed(Event event) {
  events_.push_back(std::move(event));
  if (is_feeding_) {
    return;  // an action led to another event: its turn comes after the remaining actions
  }
  is_feeding_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    for (const Action& action : membership_.Apply(next, now_)) {
      std::visit([this](const auto& concrete) { Do(concrete); }, action);
    }
  }
  is_feeding_ = false;
}

void MeshLoop::Do(const action::Dial& action) {
  CallByName(CallKey{LinkKind::kControl, action.rank});
}

void MeshLoop::Do(const action::CancelDial& action) {
  CancelCall(CallKey{LinkKind::kControl, action.rank});
}

void MeshLoop::Do(const action::Accept& action) {
  auto visitor = undecided_.extract(action.link);
  LOCKSTEP_CHECK(!visitor.empty(), "accepted a link that was not requested");
  Link link = std::move(visitor.mapped());
  const VerdictFrame verdict{true, {}, membership_.epoch(), {}};
  const Status sent = link.socket.Write(EncodeFrame(verdict));
  links_.emplace(action.link, std::move(link));
  if (!sent.ok()) {
    links_.erase(action.link);
    Feed(event::LinkLost{action.link});
  }
}

void MeshLoop::Do(const action::Refuse& action) {
  auto visitor = undecided_.extract(action.link);
  LOCKSTEP_CHECK(!visitor.empty(), "refused a link that was not requested");
  const VerdictFrame verdict{false, action.reason, membership_.epoch(), {}};
  // Closing says the same, less clearly.
  (void)visitor.mapped().socket.Write(EncodeFrame(verdict));
  options_.logger->Info("peer refused",
                        {{"rank", visitor.mapped().rank}, {"reason", RefusalName(action.reason)}});
}

void MeshLoop::Do(const action::Close& action) {
  auto link = links_.extract(action.link);
  if (!link.empty() && action.tell_superseded) {
    (void)link.mapped().socket.Write(EncodeFrame(SupersededFrame{}));  // it finds out anyway
  }
}

void MeshLoop::Do(const action::Send& action) {
  const auto link = links_.find(action.link);
  if (link == links_.end()) {
    return;
  }
  const Status sent = link->second.socket.Write(EncodeFrame(action.state));
  // A peer that is gone may have said something before: reading finds that, and then the end.
  if (!sent.ok() && sent.error().code() != ErrorCode::kPeerLost) {
    call_errors_[link->second.rank] = sent.error().ToString();
    links_.erase(link);
    Feed(event::LinkLost{action.link});
  }
}

void MeshLoop::Do(const action::Look& action) {
  Feed(event::Seen{action.link, watch_.LookAtThread(static_cast<pid_t>(action.thread), now_)});
}

void MeshLoop::Do(const action::Formed& action) {
  formed_ = action;
  // Who made the control connection makes the data connection, to the same address: it is known to
  // lead to this incarnation, which a name need not.
  for (const auto& [id, link] : links_) {
    if (link.called_at.has_value()) {
      const CallKey key{LinkKind::kData, link.rank};
      calls_[key] = PendingCall{++call_count_, action.epoch};
      StartCall(key, {*link.called_at});
    }
  }
  CheckWired();
}

void MeshLoop::Do(const action::Abandon& /*action*/) {
  ClearWiring();
}

void MeshLoop::Do(const action::Met& action) {
  LOCKSTEP_CHECK(formed_.has_value() && formed_->epoch == action.epoch,
                 "this rank took no part in the rendezvous that completed");
  Meeting meeting;
  meeting.epoch = action.epoch;
  meeting.members = formed_->members;
  meeting.data_links.resize(static_cast<std::size_t>(world_size()));
  for (auto& [rank, link] : data_links_) {
    meeting.data_links[static_cast<std::size_t>(rank)] = std::move(link.fd);
  }
  ClearWiring();
  options_.logger->Debug("rendezvous complete", {{"epoch", meeting.epoch.value()}});
  Deliver(std::move(meeting));
}

void MeshLoop::Do(const action::PlansDiffer& action) {
  Deliver(
      Error(ErrorCode::kMismatch,
            "rank " + std::to_string(action.rank) +
                " has a different plan than rank 0: all ranks need the same manifest and build, "
                "and programs must open their sessions with the same plan"));
}

void MeshLoop::Do(const action::Broken& action) {
  const PeerLoss& loss = action.loss;
  options_.logger->Debug("peer lost",
                         {{"rank", loss.rank},
                          {"incarnation", loss.incarnation.value()},
                          {"epoch", loss.epoch.value()},
                          {"reason", LossReasonName(loss.reason)}});
  if (options_.on_peer_lost) {
    options_.on_peer_lost(loss);
  }
}

void MeshLoop::Do(const action::TimedOut& action) {
  const std::string missing = DescribeMissing(action.missing);
  ClearWiring();
  Deliver(Error(ErrorCode::kTimeout,
                "rendezvous at epoch " + std::to_string(membership_.epoch().value()) +
                    " timed out waiting for " + missing));
}

void MeshLoop::Do(const action::NobodyNeeded& /*action*/) {
  Deliver(Error(ErrorCode::kAborted, "all ranks have finished their work"));
}

void MeshLoop::Do(const action::Superseded& /*action*/) {
  ClearWiring();
  Deliver(Error(ErrorCode::kStale,
                "rank " + std::to_string(self_rank()) +
                    " was superseded: a newer process has taken its place"));
}

void MeshLoop::CallByName(const CallKey& key) {
  const HostPort& address = options_.addresses[static_cast<std::size_t>(key.rank)];
  const uint64_t number = ++call_count_;
  calls_[key] = PendingCall{number, membership_.epoch()};
  const Result<SocketAddress> numeric = ParseNumericAddress(address.host, address.port);
  if (numeric.ok()) {
    StartCall(key, {*numeric});
    return;
  }
  Mailbox* mailbox = options_.mailbox;
  resolver_.Resolve(address.host,
                    address.port,
                    [mailbox, key, number](Result<std::vector<SocketAddress>> addresses) {
                      mailbox->Post(NameResolved{key, number, std::move(addresses)});
                    });
}

void MeshLoop::StartCall(const CallKey& key, std::vector<SocketAddress> addresses) {
  CallRequest request;
  request.addresses = std::move(addresses);
  request.hello.kind = key.kind;
  request.hello.hello = options_.membership.self;
  request.hello.target_rank = key.rank;
  request.hello.epoch = calls_[key].epoch;
  if (key.kind == LinkKind::kData) {
    LOCKSTEP_CHECK(formed_.has_value(), "a data connection needs a rendezvous");
    request.expected = formed_->members[static_cast<std::size_t>(key.rank)].incarnation;
  }
  dialer_.Start(key, std::move(request), now_);
}

void MeshLoop::CancelCall(const CallKey& key) {
  calls_.erase(key);
  dialer_.Cancel(key);
}

void MeshLoop::FailCall(const CallKey& key, bool is_superseded, const std::string& errors) {
  const Epoch epoch = calls_[key].epoch;
  calls_.erase(key);
  call_errors_[key.rank] = errors;
  options_.logger->Debug("peer could not be reached", {{"rank", key.rank}, {"error", errors}});
  if (key.kind == LinkKind::kData) {
    Feed(event::DataLinkFailed{epoch, key.rank});
  } else {
    Feed(event::DialFailed{key.rank, is_superseded});
  }
}

void MeshLoop::CheckWired() {
  if (!formed_.has_value()) {
    return;
  }
  int wired_count = 0;
  for (const auto& [rank, link] : data_links_) {
    wired_count += link.epoch == formed_->epoch ? 1 : 0;
  }
  if (wired_count == world_size() - 1) {
    Feed(event::DataLinksReady{formed_->epoch});
  }
}

void MeshLoop::ClearWiring() {
  formed_.reset();
  data_links_.clear();
  for (int rank = 0; rank < world_size(); ++rank) {
    CancelCall(CallKey{LinkKind::kData, rank});
  }
}

void MeshLoop::Deliver(Result<Meeting> outcome) {
  if (!std::exchange(is_meet_pending_, false)) {
    return;
  }
  Publish();  // whoever wakes up finds the epoch and peers that go with the outcome
  {
    const std::lock_guard<std::mutex> lock(options_.board->mutex);
    options_.board->outcome = std::move(outcome);
  }
  options_.board->changed.notify_all();
}

std::string MeshLoop::DescribeMissing(const std::vector<int>& missing) const {
  std::string text;
  for (const PeerStatus& peer : membership_.Peers(now_)) {
    const bool is_unwired = missing.empty() && !data_links_.contains(peer.rank);
    if (!is_unwired && std::find(missing.begin(), missing.end(), peer.rank) == missing.end()) {
      continue;
    }
    const HostPort& address = options_.addresses[static_cast<std::size_t>(peer.rank)];
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(peer.rank) + " at " +
            FormatHostPort(address);
    const auto error = call_errors_.find(peer.rank);
    if (is_unwired) {
      text += " (no data connection)";
    } else if (peer.state == PeerState::kConnected) {
      text += " (connected, but has not joined the rendezvous yet)";
    } else if (error != call_errors_.end()) {
      text += " (" + error->second + ")";
    }
  }
  return text;
}

}  // namespace lockstep::runtime
