#include "trainer-runtime/rendezvous/dialer.h"

#include <algorithm>
#include <utility>

namespace lockstep::runtime {
namespace {

// For connecting to one address and the handshake there. A live process of a data centre answers in
// milliseconds; the address of a dead node never does. Choice.
constexpr Duration kAddressTimeout = std::chrono::seconds(1);

}  // namespace

void Dialer::Start(const CallKey& key, CallRequest request, TimePoint now) {
  Call& call = calls_[key];
  call = Call{};
  call.request = std::move(request);
  TryNextAddress(&call, now);
}

void Dialer::Watch(PollSet* poll) const {
  for (const auto& [key, call] : calls_) {
    if (call.socket.has_value()) {
      poll->Watch(call.socket->fd(), call.stage == Stage::kConnecting || call.socket->has_unsent());
    }
  }
}

TimePoint Dialer::NextTimeout() const {
  TimePoint next = TimePoint::max();
  for (const auto& [key, call] : calls_) {
    // A call whose addresses all failed at once waits for the next round only.
    next = std::min(next, call.socket.has_value() ? call.give_up : TimePoint::min());
  }
  return next;
}

std::vector<CallOutcome> Dialer::Advance(const PollSet& poll, TimePoint now) {
  std::vector<CallOutcome> outcomes;
  for (auto entry = calls_.begin(); entry != calls_.end();) {
    auto& [key, call] = *entry;
    bool is_accepted = false;
    bool is_connected = false;
    if (call.socket.has_value()) {
      Status status;
      if (poll.IsReady(call.socket->fd())) {
        status = Progress(&call, &is_accepted, &is_connected);
      } else if (now >= call.give_up) {
        status = Error(ErrorCode::kTimeout, "no answer");
      }
      if (!status.ok()) {
        GiveUpAddress(&call, status.error(), now);
      }
    }
    if (is_connected) {
      outcomes.push_back(CallOutcome{key, CallOutcome::Kind::kConnected, {}, {}, {}, false, {}});
    }
    if (is_accepted) {
      outcomes.push_back(CallOutcome{key,
                                     CallOutcome::Kind::kAccepted,
                                     std::move(call.socket),
                                     call.handshake->peer(),
                                     call.request.addresses[call.next_address],
                                     false,
                                     {}});
      entry = calls_.erase(entry);
    } else if (!call.socket.has_value()) {
      outcomes.push_back(CallOutcome{
          key, CallOutcome::Kind::kFailed, {}, {}, {}, call.is_superseded, std::move(call.errors)});
      entry = calls_.erase(entry);
    } else {
      ++entry;
    }
  }
  return outcomes;
}

// Leaves `call->socket` empty when no address is left.
void Dialer::TryNextAddress(Call* call, TimePoint now) {
  call->socket.reset();
  while (call->next_address < call->request.addresses.size()) {
    const SocketAddress& address = call->request.addresses[call->next_address];
    Result<UniqueFd> fd = StartConnect(address);
    if (fd.ok()) {
      call->socket.emplace(std::move(fd).value());
      call->stage = Stage::kConnecting;
      call->give_up = now + kAddressTimeout;
      return;
    }
    call->errors += (call->errors.empty() ? "" : "; ") + fd.error().ToString();
    ++call->next_address;
  }
}

void Dialer::GiveUpAddress(Call* call, const Error& error, TimePoint now) {
  const SocketAddress& address = call->request.addresses[call->next_address];
  call->errors += (call->errors.empty() ? "" : "; ") + address.ToString() + ": " + error.ToString();
  call->is_superseded = call->is_superseded || error.code() == ErrorCode::kStale;
  ++call->next_address;
  TryNextAddress(call, now);
}

Status Dialer::Progress(Call* call, bool* is_accepted, bool* is_connected) {
  if (call->stage == Stage::kConnecting) {
    LOCKSTEP_RETURN_IF_ERROR(ConnectOutcome(call->socket->fd()));
    call->handshake.emplace(call->request.hello, job_key_);
    LOCKSTEP_RETURN_IF_ERROR(call->socket->Write(call->handshake->HelloBody()));
    call->stage = Stage::kAwaitingReply;
    *is_connected = true;
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(call->socket->Flush());
  while (!*is_accepted) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> body, call->socket->Read());
    if (!body.has_value()) {
      return OkStatus();
    }
    LOCKSTEP_RETURN_IF_ERROR(OnFrame(call, *body, is_accepted));
  }
  return OkStatus();
}

Status Dialer::OnFrame(Call* call, const std::string& body, bool* is_accepted) {
  if (call->stage == Stage::kAwaitingVerdict) {
    LOCKSTEP_RETURN_IF_ERROR(call->handshake->OnVerdict(body));
    *is_accepted = true;
    return OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string proof, call->handshake->OnReply(body));
  const Incarnation found = call->handshake->peer().identity.incarnation;
  if (call->request.expected.has_value() && found != *call->request.expected) {
    return Error(ErrorCode::kMismatch,
                 "incarnation " + std::to_string(found.value()) +
                     " answered, which is not the expected one");
  }
  call->stage = Stage::kAwaitingVerdict;
  return call->socket->Write(proof);
}

}  // namespace lockstep::runtime
