#include "trainer-runtime/strategy/state_digest.h"

#include <algorithm>
#include <array>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/base/check.h"

// The sum over all pairs of words of
//
//     fold((one word ^ key) x (the other word ^ another key))
//
// where fold adds both halves of the product without carry, and the keys are others at each place,
// so that what changes places shows. No product waits for the one before it.

namespace lockstep::runtime {
namespace {

__extension__ using Product = unsigned __int128;

// Source: 2^64 divided by the golden ratio, and by the plastic number.
constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
constexpr uint64_t kOtherKey = 0xc13fa9a902a6328f;

constexpr std::size_t kBlockBytes = StateDigest::kPartUnit * sizeof(float);

// A core that fetches ahead by itself stops at the end of a page: two pages on, it is far enough.
constexpr std::size_t kFetchAhead = 8 * 1024;

// What the core writes past its caches at a time, and where it must begin.
constexpr std::size_t kStoreBytes = 16;

// Both halves of the product: the lower one alone carries a change upwards only, so that two
// changed signs, which are highest bits, could cancel.
uint64_t Fold(uint64_t one, uint64_t other) {
  const Product product = Product{one} * other;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64U);
}

// Copies a block to where it is not read soon. A store by way of the caches would fetch first what
// it overwrites, and take half as long again. Precondition: `to` is a multiple of kStoreBytes.
void StoreBlock(const std::byte* from, std::byte* to) {
#if defined(__SSE2__)
  for (std::size_t at = 0; at < kBlockBytes; at += kStoreBytes) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
#else
  std::memcpy(to, from, kBlockBytes);
#endif
}

// Whoever hears from this thread afterwards sees what was stored.
void EndStores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace

// `store` is called with where each block begins.
template <typename Store>
void StateDigest::AddBlocks(std::span<const float> values, const Store& store) {
  LOCKSTEP_CHECK(count_ % kPartUnit == 0, "only the last part may end within a block");
  count_ += values.size();
  const std::byte* at = std::as_bytes(values).data();
  const std::byte* const end = at + values.size_bytes() / kBlockBytes * kBlockBytes;
  // In registers: what is written to could be these, for all that the compiler knows.
  uint64_t key = key_;
  uint64_t sum = sum_;
  uint64_t other_sum = other_sum_;
  for (; at != end; at += kBlockBytes) {
    // Behind the end as well: fetching what is not there does nothing.
    __builtin_prefetch(
        reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + kFetchAhead));
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), at, sizeof(words));
    sum += Fold(words[0] ^ key, words[1] ^ (key + kOtherKey));
    other_sum += Fold(words[2] ^ (key + 2 * kOtherKey), words[3] ^ (key + 3 * kOtherKey));
    key += kStep;
    store(at);
  }
  key_ = key;
  sum_ = sum;
  other_sum_ = other_sum;
  AddRest(values.last(values.size() % kPartUnit));
}

// Less than a block; what it lacks is zeros.
void StateDigest::AddRest(std::span<const float> values) {
  if (values.empty()) {
    return;
  }
  std::array<uint64_t, 4> words{};
  std::memcpy(words.data(), values.data(), values.size_bytes());
  sum_ += Fold(words[0] ^ key_, words[1] ^ (key_ + kOtherKey));
  other_sum_ += Fold(words[2] ^ (key_ + 2 * kOtherKey), words[3] ^ (key_ + 3 * kOtherKey));
  key_ += kStep;
}

void StateDigest::Add(std::span<const float> values) {
  AddBlocks(values, [](const std::byte*) {});
}

// The blocks that are stored begin where the core can store, so they may not be those that are
// digested:
//
//     digested   | block 0     | block 1     | block 2     | rest |
//     stored     | head | block 0     | block 1     | tail        |
void StateDigest::AddCopied(std::span<const float> values, float* to) {
  const std::byte* const from = std::as_bytes(values).data();
  auto* const target = reinterpret_cast<std::byte*>(to);
  const std::size_t size = values.size_bytes();
  const std::size_t head = std::min(size, -reinterpret_cast<std::uintptr_t>(to) % kStoreBytes);
  std::size_t stored = head;
  std::memcpy(target, from, head);
  AddBlocks(values, [&](const std::byte* /*block*/) {
    if (stored + kBlockBytes <= size) {
      StoreBlock(from + stored, target + stored);
      stored += kBlockBytes;
    }
  });
  std::memcpy(target + stored, from + stored, size - stored);
  EndStores();
}

uint64_t StateDigest::value() const {
  return Fold(sum_ ^ count_, other_sum_ ^ kStep) ^ Fold(other_sum_ + kStep, sum_ | 1);
}

uint64_t DigestOf(std::span<const float> values) {
  StateDigest digest;
  digest.Add(values);
  return digest.value();
}

}  // namespace lockstep::runtime
