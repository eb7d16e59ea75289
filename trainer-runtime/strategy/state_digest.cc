#include "trainer-runtime/strategy/state_digest.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace lockstep::runtime {
namespace {

__extension__ using Product = unsigned __int128;

// Source: 2^64 divided by the golden ratio.
constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;

// A multiplication takes four times as long as the next one waits for it: eight chains keep the
// core busy.
constexpr std::size_t kLanes = 8;
using Lanes = std::array<uint64_t, kLanes>;

// A core that fetches ahead by itself stops at the end of a page. Measured over 1 GB: 0.18 s
// without, 0.12 with one page or four, 0.10 with two, which is what it takes where all is in the
// cache.
constexpr std::size_t kFetchAhead = 8 * 1024;

// Both halves of the product: the lower one alone carries a change upwards only, so that two
// changed signs, which are highest bits, could cancel.
uint64_t Mix(uint64_t state, uint64_t word) {
  const Product product = Product{state ^ word} * kFactor;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64U);
}

void MixBlock(Lanes& lanes, const Lanes& words) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    lanes[lane] = Mix(lanes[lane], words[lane]);
  }
}

}  // namespace

uint64_t DigestOf(std::span<const float> values) {
  Lanes lanes{1, 2, 3, 4, 5, 6, 7, 8};
  Lanes words{};
  std::span<const std::byte> bytes = std::as_bytes(values);
  for (; bytes.size() >= sizeof(words); bytes = bytes.subspan(sizeof(words))) {
    // Behind the end as well: fetching what is not there does nothing.
    __builtin_prefetch(reinterpret_cast<const void*>(
        reinterpret_cast<std::uintptr_t>(bytes.data()) + kFetchAhead));
    std::memcpy(words.data(), bytes.data(), sizeof(words));
    MixBlock(lanes, words);
  }
  words.fill(0);
  if (!bytes.empty()) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
  MixBlock(lanes, words);
  uint64_t digest = values.size();
  for (const uint64_t lane : lanes) {
    digest = Mix(digest, Mix(lane, digest));
  }
  return digest;
}

}  // namespace lockstep::runtime
