#include "trainer-runtime/ps/ps_caller.h"

#include <algorithm>
#include <utility>

#include "trainer-runtime/rendezvous/host_id.h"

namespace lockstep::runtime {
namespace {

// Between two calls to a ps that does not answer. Choice: a successor is found within a moment, and
// nobody is flooded.
constexpr Duration kCallAgainAfter = std::chrono::milliseconds(100);

}  // namespace

PsCaller::PsCaller(PsCallerOptions options)
    : options_(std::move(options)), dialer_(options_.job_key) {}

void PsCaller::Want(int ps, TimePoint now) {
  if (!is_superseded_ && !links_.contains(ps) && !calls_.contains(ps)) {
    calls_[ps] = {CallStage::kWaiting, now};
    Begin(ps, now);
  }
}

void PsCaller::NoteNewest(int ps, Incarnation incarnation, TimePoint now) {
  Incarnation& newest = newest_[ps];
  newest = std::max(newest, incarnation);
  const auto link = links_.find(ps);
  if (link != links_.end() && link->second->incarnation < newest) {
    Fail(ps, "it was replaced by incarnation " + std::to_string(newest.value()), now);
  }
}

void PsCaller::CallNobody() {
  is_superseded_ = true;
  calls_.clear();
}

uint64_t PsCaller::BytesMoved(int ps) const {
  const auto link = links_.find(ps);
  return link == links_.end()
             ? 0
             : link->second->socket.bytes_read() + link->second->socket.bytes_sent();
}

void PsCaller::Begin(int ps, TimePoint now) {
  const HostPort& address = options_.addresses[static_cast<std::size_t>(ps)];
  const Result<SocketAddress> numeric = ParseNumericAddress(address.host, address.port);
  if (numeric.ok()) {
    Dial(ps, {*numeric}, now);
    return;
  }
  calls_[ps].stage = CallStage::kNaming;
  resolver_.Resolve(
      address.host, address.port, [this, ps](Result<std::vector<SocketAddress>> addresses) {
        names_.Post({ps, std::move(addresses)});
      });
}

void PsCaller::Dial(int ps, std::vector<SocketAddress> addresses, TimePoint now) {
  CallRequest request;
  request.addresses = std::move(addresses);
  request.hello.kind = LinkKind::kData;
  request.hello.hello = {options_.self, ReadHostId()};
  request.hello.target_rank = PsPlace(options_.self.world_size, ps);
  calls_[ps].stage = CallStage::kDialing;
  dialer_.Start({LinkKind::kData, ps}, std::move(request), now);
}

void PsCaller::Fail(int ps, std::string why, TimePoint now) {
  links_.erase(ps);
  if (!is_superseded_) {
    calls_[ps] = {CallStage::kWaiting, now + kCallAgainAfter};
  }
  news_.push_back({ps, CallerNews::Kind::kDown, std::move(why)});
}

bool PsCaller::HasUnsent(int ps) const {
  const auto link = links_.find(ps);
  return link != links_.end() && link->second->socket.has_unsent();
}

void PsCaller::Send(int ps, const std::string& message) {
  const auto link = links_.find(ps);
  if (link != links_.end()) {
    (void)link->second->socket.Write(message);  // a broken one is found by the next reading
  }
}

void PsCaller::Watch(PollSet* poll) const {
  poll->Watch(names_.fd());
  dialer_.Watch(poll);
  for (const auto& [ps, link] : links_) {
    poll->Watch(link->socket.fd(), link->socket.has_unsent());
  }
}

TimePoint PsCaller::NextTimeout() const {
  TimePoint next = dialer_.NextTimeout();
  for (const auto& [ps, call] : calls_) {
    if (call.stage == CallStage::kWaiting) {
      next = std::min(next, call.begin_at);
    }
  }
  return next;
}

std::vector<CallerNews> PsCaller::Advance(const PollSet& poll, TimePoint now) {
  for (NameFound& found : names_.Take()) {
    if (is_superseded_) {
      continue;
    }
    if (found.addresses.ok()) {
      Dial(found.ps, std::move(found.addresses).value(), now);
    } else {
      Fail(found.ps, found.addresses.error().ToString(), now);
    }
  }
  for (CallOutcome& outcome : dialer_.Advance(poll, now)) {
    Take(std::move(outcome), now);
  }
  std::vector<int> ready;
  for (const auto& [ps, link] : links_) {
    if (poll.IsReady(link->socket.fd())) {
      ready.push_back(ps);
    }
  }
  for (const int ps : ready) {
    ReadLink(ps, now);
  }
  for (auto& [ps, call] : calls_) {
    if (call.stage == CallStage::kWaiting && now >= call.begin_at) {
      Begin(ps, now);
    }
  }
  return std::exchange(news_, {});
}

void PsCaller::Take(CallOutcome outcome, TimePoint now) {
  const int ps = outcome.key.rank;
  const Incarnation found = outcome.peer.identity.incarnation;
  if (is_superseded_ || outcome.kind == CallOutcome::Kind::kConnected) {
    return;
  }
  if (outcome.kind == CallOutcome::Kind::kAccepted && found < newest_[ps]) {
    Fail(ps,
         "incarnation " + std::to_string(found.value()) +
             " answered, but a newer process has replaced it",
         now);
  } else if (outcome.kind == CallOutcome::Kind::kAccepted) {
    calls_.erase(ps);
    links_[ps] =
        std::make_unique<Link>(Link{found, MessageSocket(std::move(*outcome.socket).Release())});
    news_.push_back({ps, CallerNews::Kind::kUp, {}});
  } else if (outcome.is_superseded) {
    CallNobody();
    news_.push_back({ps, CallerNews::Kind::kRefused, std::move(outcome.errors)});
  } else {
    Fail(ps, std::move(outcome.errors), now);
  }
}

void PsCaller::ReadLink(int ps, TimePoint now) {
  MessageSocket& link = links_.at(ps)->socket;
  const Status flushed = link.Flush();
  if (!flushed.ok()) {
    Fail(ps, flushed.error().ToString(), now);
    return;
  }
  std::size_t budget = kBytesARound;
  while (true) {
    Result<std::optional<std::string>> message = link.Read(&budget);
    if (!message.ok()) {
      Fail(ps, message.error().ToString(), now);
      return;
    }
    if (!message->has_value()) {
      return;
    }
    news_.push_back({ps, CallerNews::Kind::kMessage, std::move(**message)});
  }
}

}  // namespace lockstep::runtime
