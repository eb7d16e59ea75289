#include "trainer-runtime/rendezvous/reception.h"

#include <algorithm>
#include <utility>

#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {
namespace {

// A caller that has connected has its hello ready. Choice: longer than the caller's own patience.
constexpr Duration kHandshakeTimeout = std::chrono::seconds(2);

// With no descriptors left a ready listener would spin.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

void Reception::Watch(PollSet* poll, TimePoint now) const {
  if (CanAccept(now)) {
    poll->Watch(options_.listener.get());
  }
  for (const Caller& caller : callers_) {
    poll->Watch(caller.socket.fd(), caller.socket.has_unsent());
  }
}

TimePoint Reception::NextTimeout() const {
  TimePoint next = TimePoint::max();
  if (accept_again_ != TimePoint()) {
    next = accept_again_;
  }
  for (const Caller& caller : callers_) {
    next = std::min(next, caller.give_up);
  }
  return next;
}

std::vector<Visitor> Reception::Advance(const PollSet& poll, TimePoint now) {
  if (now >= accept_again_) {
    accept_again_ = TimePoint();
  }
  std::vector<Visitor> visitors;
  std::vector<Caller> waiting;
  for (Caller& caller : callers_) {
    Result<bool> is_done = false;
    if (poll.IsReady(caller.socket.fd())) {
      is_done = Progress(&caller);
    } else if (now >= caller.give_up) {
      is_done = Error(ErrorCode::kTimeout, "the caller sent nothing in time");
    }
    if (!is_done.ok()) {
      // Port scanners and health checks end up here: nothing to alarm anybody.
      options_.logger->Debug("caller rejected", {{"error", is_done.error().ToString()}});
    } else if (*is_done) {
      visitors.push_back(Visitor{std::move(caller.socket), caller.handshake.caller()});
    } else {
      waiting.push_back(std::move(caller));
    }
  }
  callers_ = std::move(waiting);
  if (options_.listener.is_open() && poll.IsReady(options_.listener.get())) {
    AcceptWaiting(now);
  }
  return visitors;
}

bool Reception::CanAccept(TimePoint now) const {
  return options_.listener.is_open() && callers_.size() < options_.waiting_max &&
         now >= accept_again_;
}

void Reception::AcceptWaiting(TimePoint now) {
  while (CanAccept(now)) {
    Result<UniqueFd> fd = AcceptOne(options_.listener);
    if (!fd.ok()) {
      options_.logger->Warn("cannot accept connections", {{"error", fd.error().ToString()}});
      accept_again_ = now + kAcceptPause;
      return;
    }
    if (!fd->is_open()) {
      return;
    }
    callers_.push_back(Caller{FramedSocket(std::move(fd).value()),
                              AcceptorHandshake(options_.self, options_.job_key),
                              false,
                              now + kHandshakeTimeout});
  }
}

// Whether the handshake is complete.
Result<bool> Reception::Progress(Caller* caller) const {
  LOCKSTEP_RETURN_IF_ERROR(caller->socket.Flush());
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> body, caller->socket.Read());
    if (!body.has_value()) {
      return false;
    }
    if (caller->has_said_hello) {
      LOCKSTEP_RETURN_IF_ERROR(caller->handshake.OnProof(*body));
      return true;
    }
    Result<std::string> reply = caller->handshake.OnHello(*body);
    if (!reply.ok()) {
      if (reply.error().code() == ErrorCode::kMismatch) {
        const VerdictFrame verdict{false, Refusal::kWrongJob, Epoch(0), reply.error().message()};
        (void)caller->socket.Write(EncodeFrame(verdict));  // a courtesy to a stranger
      }
      return std::move(reply).error();
    }
    caller->has_said_hello = true;
    LOCKSTEP_RETURN_IF_ERROR(caller->socket.Write(*reply));
  }
}

}  // namespace lockstep::runtime
