#include "trainer-runtime/collectives/shared_memory/shared_memory_group.h"

#include <algorithm>
#include <cstring>
#include <sched.h>
#include <string>
#include <utility>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/communicator/links.h"
#include "trainer-runtime/collectives/shared_memory/futex.h"

namespace lockstep::runtime {
namespace {

// Choice: past it a wake-up costs little in proportion.
constexpr Duration kLongSpin = std::chrono::microseconds(50);

// Whether every rank can have a core of its own.
bool HasCoreEach(int world_size) {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) >= world_size;
}

}  // namespace

SharedMemoryGroup::SharedMemoryGroup(int rank,
                                     SharedMemoryLayout layout,
                                     CommunicatorOptions options)
    : rank_(rank),
      world_size_(options.world_size),
      layout_(layout),
      links_(std::move(options.links)),
      names_(std::move(options.names)),
      has_core_each_(HasCoreEach(world_size_)) {}

void SharedMemoryGroup::PostCall(const Call& call, const void* payload, std::size_t payload_size) {
  Post* post = layout_.post(rank_, call.sequence);
  post->call = call;
  if (payload_size > 0) {
    std::memcpy(post->payload(), payload, payload_size);
  }
  Publish(post->sequence, static_cast<uint32_t>(call.sequence));
}

// The store and the look at `sleepers` must not change places, here and in AwaitSlowly: one of the
// two sides sees the other.
void SharedMemoryGroup::Publish(std::atomic<uint32_t>& word, uint32_t value) {
  word.exchange(value, std::memory_order_seq_cst);
  if (layout_.progress(rank_)->sleepers.load(std::memory_order_seq_cst) != 0) {
    FutexWakeAll(word);
  }
}

Status SharedMemoryGroup::AwaitPost(const CallContext& context, int peer) {
  if (peer == rank_) {
    return OkStatus();
  }
  const Post* post = layout_.post(peer, context.call.sequence);
  LOCKSTEP_RETURN_IF_ERROR(
      Await(context, post->sequence, static_cast<uint32_t>(context.call.sequence), peer));
  return Agree(post->call, context.call) ? OkStatus() : FindMismatch(context, peer);
}

bool SharedMemoryGroup::SpinFor(const std::atomic<uint32_t>& word, uint32_t target) {
  // Eight pauses are about 0.1 us: looking at the clock more often would delay looking at the word.
  constexpr int kPausesPerLook = 8;

  const bool spins_long = has_core_each_ && spin_.ShouldTry();
  TimePoint now = SteadyNow();
  const TimePoint spin_end = now + (spins_long ? kLongSpin : Duration::zero());
  do {
    for (int pause = 0; pause < kPausesPerLook; ++pause) {
      if (HasReached(word, target)) {
        if (spins_long) {
          spin_.Record(true);
        }
        return true;
      }
      SpinPause();
    }
    now = SteadyNow();
  } while (now < spin_end);
  if (spins_long) {
    spin_.Record(false);
  }
  return YieldFor(word, target);
}

bool SharedMemoryGroup::YieldFor(const std::atomic<uint32_t>& word, uint32_t target) {
  // A turn of a peer on the same core lasts as long as its work on a chunk; a time slice of another
  // program is 3 ms or more.
  constexpr Duration kTurnMax = std::chrono::milliseconds(1);

  if (!yield_.ShouldTry()) {
    return HasReached(word, target);
  }
  // Ranks that share cores take turns for as long as a spin would last: where nobody else wants
  // this core a turn is over at once, and the peer may be at work on another.
  TimePoint now = SteadyNow();
  const TimePoint end = now + (has_core_each_ ? Duration::zero() : kLongSpin);
  bool is_short = true;
  do {
    const TimePoint begin = now;
    ::sched_yield();
    now = SteadyNow();
    is_short = now - begin < kTurnMax;
  } while (is_short && now < end && !HasReached(word, target));
  yield_.Record(is_short);
  return HasReached(word, target);
}

Status SharedMemoryGroup::AwaitSlowly(const CallContext& context,
                                      const std::atomic<uint32_t>& word,
                                      uint32_t target,
                                      int peer) {
  // How often a sleeper looks at links, deadline and reported failures. Choice: Abort() promises
  // 10 ms, and 200 looks a second cost nothing.
  constexpr Duration kLookInterval = std::chrono::milliseconds(5);
  if (SpinFor(word, target)) {
    return OkStatus();
  }
  std::atomic<uint32_t>& sleepers = layout_.progress(peer)->sleepers;
  while (!HasReached(word, target)) {
    // All peers are looked at, and the kernel is asked for links: not for each of many short waits.
    const TimePoint now = SteadyNow();
    if (failure_.is_set() || now - looked_at_ >= kLookInterval || context.deadline.HasPassed(now)) {
      looked_at_ = now;
      LOCKSTEP_RETURN_IF_ERROR(FindTrouble(context, word, target, peer));
    }
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = word.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(seen - target) < 0 && !failure_.is_set()) {
      FutexWait(word, seen, std::min(kLookInterval, context.deadline.Remaining(SteadyNow())));
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
  return OkStatus();
}

Status SharedMemoryGroup::FindTrouble(const CallContext& context,
                                      const std::atomic<uint32_t>& word,
                                      uint32_t target,
                                      int peer) const {
  if (failure_.is_set()) {
    return failure_.Get();
  }
  if (const auto reported = ReportedFailure()) {
    return context.Fail(reported->code(), reported->message());
  }
  for (int other = 0; other < world_size_; ++other) {
    LOCKSTEP_RETURN_IF_ERROR(FindMismatch(context, other));
  }
  for (const int other : FindLostPeers(links_)) {
    // A peer may leave once it has finished this call; what it wrote last is seen by looking again.
    if (!HasReached(word, target) && !HasReached(layout_.progress(other)->completed,
                                                 static_cast<uint32_t>(context.call.sequence))) {
      return LostPeer(context, other);
    }
  }
  if (context.deadline.HasPassed(SteadyNow())) {
    return context.Fail(ErrorCode::kTimeout,
                        "deadline passed while waiting for " + NameOfRank(peer));
  }
  return OkStatus();
}

Error SharedMemoryGroup::LostPeer(const CallContext& context, int peer) const {
  return context.Fail(ErrorCode::kPeerLost,
                      DescribeLostPeers({NameOf(names_, peer)}, kLinkIsClosed));
}

Status SharedMemoryGroup::FindMismatch(const CallContext& context, int peer) const {
  const Post* post = layout_.post(peer, context.call.sequence);
  if (post->sequence.load(std::memory_order_acquire) !=
          static_cast<uint32_t>(context.call.sequence) ||
      Agree(post->call, context.call)) {
    return OkStatus();
  }
  return MismatchError(NameOf(names_, rank_), context.call, NameOf(names_, peer), post->call);
}

std::string SharedMemoryGroup::NameOfRank(int rank) const {
  return "rank " + std::to_string(NameOf(names_, rank));
}

void SharedMemoryGroup::Fail(const Error& error) noexcept {
  if (failure_.Set(error)) {
    ReportFailure(error);
  }
}

void SharedMemoryGroup::Abort(const Error& reason) noexcept {
  Fail(ReportedFailure().value_or(reason));
}

void SharedMemoryGroup::ReportFailure(const Error& error) noexcept {
  FailureRecord* record = layout_.failure();
  uint32_t expected = FailureRecord::kNone;
  if (record->state.compare_exchange_strong(expected, FailureRecord::kBeingWritten)) {
    const std::string text = error.ToString();
    record->code = static_cast<int32_t>(error.code());
    record->rank = rank_;
    record->text_size = static_cast<uint32_t>(std::min(text.size(), FailureRecord::kTextSize));
    std::memcpy(record->text, text.data(), record->text_size);
    record->state.store(FailureRecord::kWritten, std::memory_order_seq_cst);
  }
  WakeEveryone();
}

Status SharedMemoryGroup::CheckNobodyHasFailed(const CallContext& context) const {
  if (const auto reported = ReportedFailure()) {
    return context.Fail(reported->code(), reported->message());
  }
  // A report that is being written may stay so: its writer may be killed.
  const bool is_one_coming =
      layout_.failure()->state.load(std::memory_order_acquire) != FailureRecord::kNone;
  return is_one_coming ? Status(context.Fail(ErrorCode::kAborted, "another rank has failed"))
                       : OkStatus();
}

Status SharedMemoryGroup::CheckGoesOn(const CallContext& context, int peer) const {
  if (failure_.is_set()) {
    return failure_.Get();
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckNobodyHasFailed(context));
  if (context.deadline.HasPassed(SteadyNow())) {
    return context.Fail(ErrorCode::kTimeout,
                        "deadline passed while reading from " + NameOfRank(peer));
  }
  const std::vector<int> lost = FindLostPeers(links_);
  return std::ranges::find(lost, peer) == lost.end() ? OkStatus() : LostPeer(context, peer);
}

std::optional<Error> SharedMemoryGroup::ReportedFailure() const {
  const FailureRecord* record = layout_.failure();
  if (record->state.load(std::memory_order_acquire) != FailureRecord::kWritten) {
    return std::nullopt;
  }
  const std::size_t size = std::min<std::size_t>(record->text_size, FailureRecord::kTextSize);
  return Error(static_cast<ErrorCode>(record->code),
               NameOfRank(record->rank) + " reported: " + std::string(record->text, size));
}

// Between two calls nobody may leave: each waits for all others in the next one.
Status SharedMemoryGroup::CheckHealth() {
  if (failure_.is_set()) {
    return failure_.Get();
  }
  std::optional<Error> trouble = ReportedFailure();
  const std::vector<int> lost = trouble.has_value() ? std::vector<int>() : FindLostPeers(links_);
  if (!lost.empty()) {
    trouble = Error(ErrorCode::kPeerLost,
                    DescribeLostPeers({NameOf(names_, lost.front())}, kLinkIsClosed));
  }
  if (!trouble.has_value()) {
    return OkStatus();
  }
  Fail(*trouble);
  return failure_.Get();
}

void SharedMemoryGroup::WakeEveryone() noexcept {
  for (int rank = 0; rank < world_size_; ++rank) {
    FutexWakeAll(layout_.progress(rank)->staged);
    FutexWakeAll(layout_.progress(rank)->reduced);
    FutexWakeAll(layout_.post(rank, 0)->sequence);
    FutexWakeAll(layout_.post(rank, 1)->sequence);
  }
}

void SharedMemoryGroup::Complete(const Call& call) {
  layout_.progress(rank_)->completed.store(static_cast<uint32_t>(call.sequence),
                                           std::memory_order_release);
}

}  // namespace lockstep::runtime
