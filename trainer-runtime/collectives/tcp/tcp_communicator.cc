#include "trainer-runtime/collectives/tcp/tcp_communicator.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/communicator/communicator_front.h"
#include "trainer-runtime/collectives/communicator/failure_latch.h"
#include "trainer-runtime/collectives/communicator/links.h"
#include "trainer-runtime/collectives/communicator/wait_habit.h"
#include "trainer-runtime/collectives/tcp/exchange.h"
#include "trainer-runtime/collectives/tcp/tcp_stream.h"

namespace lockstep::runtime {
namespace {

// Up to so many bytes for all ranks together, everyone sends everything to everyone. Measured with
// 2 ranks over loopback: 128 KB takes 66 us this way and 92 us the other, which has one trip more;
// at 256 KB they are equal. On a slower network the trip costs more, and so do the bytes.
constexpr std::size_t kSmallBytesMax = 256 * 1024;

// Moves frame after frame one way, until the socket blocks or `start` says that there is none left.
// `start` puts the next frame under way unless one is. Returns kMoved if anything did.
template <typename Start, typename Move>
TcpStream::Outcome MoveFrames(const Start& start, const Move& move) {
  TcpStream::Outcome so_far = TcpStream::Outcome::kBlocked;
  while (start()) {
    switch (const TcpStream::Outcome outcome = move()) {
      case TcpStream::Outcome::kBlocked:
        return so_far;
      case TcpStream::Outcome::kFinished:
        so_far = TcpStream::Outcome::kMoved;
        break;
      case TcpStream::Outcome::kMoved:
      case TcpStream::Outcome::kBroken:
        return outcome;
    }
  }
  return so_far;
}

class TcpCommunicator final : public CommunicatorFront {
 public:
  TcpCommunicator(CommunicatorOptions options, UniqueFd abort_event)
      : CommunicatorFront(options.rank, options.world_size, options.epoch, options.names),
        rank_(options.rank),
        world_size_(options.world_size),
        links_(std::move(options.links)),
        names_(std::move(options.names)),
        abort_event_(std::move(abort_event)) {
    for (const UniqueFd& link : links_) {
      streams_.emplace_back(link.get());
    }
    buffers_.of_peer.resize(links_.size());
    entries_.resize(links_.size() + 1);
  }

  Status CheckHealth() override;

  const char* BackendName() const override { return "tcp"; }

  void Abort(const Error& reason) noexcept override;

 private:
  // On failure tells the peers and stays failed.
  Status Run(const CallContext& context, std::byte* data) override;
  std::unique_ptr<Exchange> MakeExchange(const CallContext& context, std::byte* data);
  Status RunToEnd(const CallContext& context, Exchange& exchange);
  // One round over all peers. Returns whether anything moved.
  Result<bool> MoveAll(const CallContext& context, Exchange& exchange);
  Result<bool> SendTo(const CallContext& context, Exchange& exchange, int peer);
  Result<bool> ReceiveFrom(const CallContext& context, Exchange& exchange, int peer);
  bool IsThrough(const Exchange& exchange) const;
  // Sleeps until a socket can move or something is wrong.
  Status Sleep(const CallContext& context, const Exchange& exchange);
  Status FindTrouble(const CallContext& context, const Exchange& exchange);
  // What is wrong with a peer, between calls.
  std::optional<Error> FindTroubleOf(int peer, bool is_lost);
  // Whom this rank waits for, as text.
  std::string HoldUps(const Exchange& exchange) const;
  Error FailureOf(const CallContext& context, int peer) const;
  Error LostError(const CallContext& context,
                  const std::vector<int>& lost,
                  std::string_view why) const;
  // Tells the peers of the failure, once. Precondition: failed.
  void SayFarewell() noexcept;

  const int rank_;
  const int world_size_;
  const std::vector<UniqueFd> links_;
  const std::vector<int> names_;
  const UniqueFd abort_event_;
  FailureLatch failure_;

  // Held by the calling thread during a call; Abort takes it only if it is free, to say farewell
  // itself when no call is there to do it.
  std::mutex call_mutex_;
  // The rest is guarded by call_mutex_.
  std::vector<TcpStream> streams_;
  ExchangeBuffers buffers_;
  std::vector<pollfd> entries_;  // of each link and the event
  WaitHabit spin_{2};
  bool has_said_farewell_ = false;
};

Status TcpCommunicator::Run(const CallContext& context, std::byte* data) {
  const std::lock_guard lock(call_mutex_);
  if (!failure_.is_set()) {
    const auto exchange = MakeExchange(context, data);
    const Status status = RunToEnd(context, *exchange);
    if (status.ok()) {
      exchange->Finish();
    } else {
      failure_.Set(status.error());
    }
    // An Abort during the last moments of a successful call leaves the farewell to this thread.
    if (!failure_.is_set()) {
      return OkStatus();
    }
  }
  SayFarewell();
  return failure_.Get();
}

std::unique_ptr<Exchange> TcpCommunicator::MakeExchange(const CallContext& context,
                                                        std::byte* data) {
  if (context.call.operation != Operation::kAllReduce) {
    return MakeBroadcast(context, world_size_, data);
  }
  const std::size_t all_bytes = CallBytes(context.call) * static_cast<std::size_t>(world_size_);
  return all_bytes <= kSmallBytesMax ? MakeSmallAllReduce(context, world_size_, data, buffers_)
                                     : MakeSlicedAllReduce(context, world_size_, data, buffers_);
}

Status TcpCommunicator::RunToEnd(const CallContext& context, Exchange& exchange) {
  // A wake-up over loopback costs 5 to 50 us; see WaitHabit.
  constexpr Duration kSpin = std::chrono::microseconds(50);
  TimePoint idle_since = TimePoint::max();
  bool spins = false;
  for (;;) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_moved, MoveAll(context, exchange));
    if (IsThrough(exchange)) {
      return OkStatus();
    }
    if (failure_.is_set()) {
      return failure_.Get();
    }
    const TimePoint now = SteadyNow();
    if (context.deadline.HasPassed(now)) {  // also while bytes trickle in
      return FindTrouble(context, exchange);
    }
    if (has_moved) {
      if (spins && idle_since != TimePoint::max()) {
        spin_.Record(true);
      }
      idle_since = TimePoint::max();
      continue;
    }
    if (idle_since == TimePoint::max()) {
      idle_since = now;
      spins = spin_.ShouldTry();
    }
    if (spins && now - idle_since < kSpin) {
      continue;
    }
    if (spins) {
      spin_.Record(false);
      spins = false;
    }
    LOCKSTEP_RETURN_IF_ERROR(Sleep(context, exchange));
  }
}

// All sends come first: a peer that disagrees shall have this rank's call before this rank, having
// read the peer's, gives up.
Result<bool> TcpCommunicator::MoveAll(const CallContext& context, Exchange& exchange) {
  bool has_moved = false;
  for (int step = 1; step < world_size_; ++step) {
    const int peer = (rank_ + step) % world_size_;  // staggered: not all to the same one
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_sent, SendTo(context, exchange, peer));
    has_moved = has_moved || has_sent;
  }
  for (int step = 1; step < world_size_; ++step) {
    const int peer = (rank_ + world_size_ - step) % world_size_;
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_received, ReceiveFrom(context, exchange, peer));
    has_moved = has_moved || has_received;
  }
  return has_moved;
}

Result<bool> TcpCommunicator::SendTo(const CallContext& context, Exchange& exchange, int peer) {
  TcpStream& stream = streams_[static_cast<std::size_t>(peer)];
  const auto start = [&] {
    if (!stream.is_sending()) {
      const auto frame = exchange.NextOut(peer);
      if (!frame) {
        return false;
      }
      stream.StartSending(frame->has_call ? &context.call : nullptr, frame->body);
    }
    return true;
  };
  const auto outcome = MoveFrames(start, [&] { return stream.Send(); });
  if (outcome == TcpStream::Outcome::kBroken) {
    // What the peer said before it went tells more than the broken pipe.
    const Error broken = FailureOf(context, peer);
    LOCKSTEP_RETURN_IF_ERROR(ReceiveFrom(context, exchange, peer));
    return broken;
  }
  return outcome == TcpStream::Outcome::kMoved;
}

Result<bool> TcpCommunicator::ReceiveFrom(const CallContext& context,
                                          Exchange& exchange,
                                          int peer) {
  TcpStream& stream = streams_[static_cast<std::size_t>(peer)];
  const auto start = [&] {
    if (!stream.is_receiving()) {
      const auto frame = exchange.NextIn(peer);
      if (!frame) {
        return false;
      }
      stream.StartReceiving(frame->has_call ? &context.call : nullptr, frame->body);
    }
    return true;
  };
  const auto outcome = MoveFrames(start, [&] {
    const auto received = stream.Receive();
    if (received == TcpStream::Outcome::kFinished) {
      if (stream.heard_call().has_value()) {
        exchange.HeardCall(peer, *stream.heard_call());
      }
      exchange.Received(peer);
    }
    return received;
  });
  if (outcome == TcpStream::Outcome::kBroken) {
    return FailureOf(context, peer);
  }
  return outcome == TcpStream::Outcome::kMoved;
}

bool TcpCommunicator::IsThrough(const Exchange& exchange) const {
  for (int peer = 0; peer < world_size_; ++peer) {
    const TcpStream& stream = streams_[static_cast<std::size_t>(peer)];
    if (peer != rank_ && (stream.is_sending() || !exchange.IsCompleteWith(peer))) {
      return false;
    }
  }
  return true;
}

Status TcpCommunicator::Sleep(const CallContext& context, const Exchange& exchange) {
  // How often the links on which nothing is under way are looked at. Choice: as in shared memory.
  constexpr int kLookMilliseconds = 5;
  for (std::size_t peer = 0; peer < streams_.size(); ++peer) {
    const int events =
        (streams_[peer].is_receiving() ? POLLIN : 0) | (streams_[peer].is_sending() ? POLLOUT : 0);
    entries_[peer] = {events != 0 ? links_[peer].get() : -1, static_cast<short>(events), 0};
  }
  entries_.back() = {abort_event_.get(), POLLIN, 0};
  const int left = context.deadline.RemainingMilliseconds(SteadyNow());
  const int ready = ::poll(entries_.data(), entries_.size(), std::min(left, kLookMilliseconds));
  if (failure_.is_set()) {
    return failure_.Get();
  }
  return ready > 0 ? OkStatus() : FindTrouble(context, exchange);
}

Status TcpCommunicator::FindTrouble(const CallContext& context, const Exchange& exchange) {
  const std::vector<int> lost = FindLostPeers(links_);
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    if (streams_[static_cast<std::size_t>(peer)].LookForFarewell() == TcpStream::Outcome::kBroken) {
      return FailureOf(context, peer);
    }
    // A peer may leave once it has finished this call.
    if (std::ranges::binary_search(lost, peer) && !exchange.IsCompleteWith(peer)) {
      return LostError(context, lost, kLinkIsClosed);
    }
  }
  if (context.deadline.HasPassed(SteadyNow())) {
    return context.Fail(ErrorCode::kTimeout,
                        "deadline passed while waiting for " + HoldUps(exchange));
  }
  return OkStatus();
}

// Between two calls nobody may leave: each waits for all others in the next one.
Status TcpCommunicator::CheckHealth() {
  const std::lock_guard lock(call_mutex_);
  const std::vector<int> lost = failure_.is_set() ? std::vector<int>() : FindLostPeers(links_);
  for (int peer = 0; peer < world_size_ && !failure_.is_set(); ++peer) {
    const bool is_lost = std::ranges::binary_search(lost, peer);
    if (const auto trouble = peer == rank_ ? std::nullopt : FindTroubleOf(peer, is_lost)) {
      failure_.Set(*trouble);
    }
  }
  if (!failure_.is_set()) {
    return OkStatus();
  }
  SayFarewell();
  return failure_.Get();
}

std::optional<Error> TcpCommunicator::FindTroubleOf(int peer, bool is_lost) {
  const int name = NameOf(names_, peer);
  TcpStream& stream = streams_[static_cast<std::size_t>(peer)];
  if (stream.LookForFarewell() == TcpStream::Outcome::kBroken) {
    const TcpStream::Failure& failure = stream.failure();
    const std::string who = "rank " + std::to_string(name);
    return failure.is_peers_word ? Error(failure.code, who + " reported: " + failure.text)
           : failure.code == ErrorCode::kPeerLost
               ? Error(failure.code, DescribeLostPeers({name}, failure.text))
               : Error(failure.code, who + ": " + failure.text);
  }
  if (is_lost) {
    return Error(ErrorCode::kPeerLost, DescribeLostPeers({name}, kLinkIsClosed));
  }
  return std::nullopt;
}

std::string TcpCommunicator::HoldUps(const Exchange& exchange) const {
  std::size_t most = 1;
  std::string text;
  for (int peer = 0; peer < world_size_; ++peer) {
    const std::size_t missing = peer == rank_ ? 0 : exchange.MissingFrom(peer);
    if (missing > most) {
      text.clear();
      most = missing;
    }
    if (missing == most) {
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(NameOf(names_, peer));
    }
  }
  return text.empty() ? "a peer to receive its data" : text;
}

// A peer that gives up because of a dead one may be unable to say so; naming all that are gone now
// names the dead one too.
Error TcpCommunicator::LostError(const CallContext& context,
                                 const std::vector<int>& lost,
                                 std::string_view why) const {
  std::vector<int> names;
  for (const int peer : lost) {
    names.push_back(NameOf(names_, peer));
  }
  return context.Fail(ErrorCode::kPeerLost, DescribeLostPeers(names, why));
}

Error TcpCommunicator::FailureOf(const CallContext& context, int peer) const {
  const TcpStream::Failure& failure = streams_[static_cast<std::size_t>(peer)].failure();
  if (failure.other_call) {
    return MismatchError(
        NameOf(names_, rank_), context.call, NameOf(names_, peer), *failure.other_call);
  }
  const std::string who = "rank " + std::to_string(NameOf(names_, peer));
  if (failure.is_peers_word) {
    return context.Fail(failure.code, who + " reported: " + failure.text);
  }
  if (failure.code == ErrorCode::kPeerLost) {
    std::vector<int> lost = FindLostPeers(links_);
    const auto place = std::ranges::lower_bound(lost, peer);
    if (place == lost.end() || *place != peer) {
      lost.insert(place, peer);
    }
    return LostError(context, lost, failure.text);
  }
  return context.Fail(failure.code, who + ": " + failure.text);
}

void TcpCommunicator::SayFarewell() noexcept {
  // Choice: half of what Abort() promises for a whole call.
  constexpr Duration kGrace = std::chrono::milliseconds(5);
  if (std::exchange(has_said_farewell_, true)) {
    return;
  }
  const Error error = failure_.Get();
  const Deadline deadline = Deadline::After(SteadyNow(), kGrace);
  for (std::size_t peer = 0; peer < streams_.size(); ++peer) {
    if (links_[peer].is_open()) {
      streams_[peer].SendFarewell(error, deadline);
    }
  }
}

// Whoever gives up says why before it does what others notice: where no call is there to hear it,
// that is looked for here.
void TcpCommunicator::Abort(const Error& reason) noexcept {
  std::unique_lock lock(call_mutex_, std::try_to_lock);
  std::optional<Error> told;
  for (int peer = 0; lock.owns_lock() && !told.has_value() && peer < world_size_; ++peer) {
    told = peer == rank_ ? std::nullopt : FindTroubleOf(peer, /*is_lost=*/false);
  }
  if (!failure_.Set(told.value_or(reason))) {
    return;
  }
  const uint64_t one = 1;
  // Cannot block: the counter is far from full. The event stays set, as the failure does.
  static_cast<void>(::write(abort_event_.get(), &one, sizeof(one)));
  // A call that has ended since did not see the failure.
  if (lock.owns_lock() || lock.try_lock()) {
    SayFarewell();
  }
}

}  // namespace

Result<std::unique_ptr<CommunicatorFront>> MakeTcpCommunicator(CommunicatorOptions options) {
  UniqueFd abort_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!abort_event.is_open()) {
    return SystemError(errno, "eventfd");
  }
  for (const UniqueFd& link : options.links) {
    // Fails on sockets that are not TCP, which do not delay anyway.
    const int on = 1;
    static_cast<void>(::setsockopt(link.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
  }
  return std::unique_ptr<CommunicatorFront>(
      std::make_unique<TcpCommunicator>(std::move(options), std::move(abort_event)));
}

}  // namespace lockstep::runtime
