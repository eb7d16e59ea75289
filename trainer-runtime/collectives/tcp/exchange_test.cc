#include "trainer-runtime/collectives/tcp/exchange.h"

#include <deque>
#include <numeric>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep::runtime {
namespace {

// One rank, with frames under way in memory instead of sockets.
struct SimulatedRank {
  std::vector<int32_t> data;
  ExchangeBuffers buffers;
  std::unique_ptr<Exchange> exchange;
  // Of each peer: the frame it is to receive next.
  std::vector<std::optional<Exchange::InFrame>> expected;
};

// Runs one all-reduce of `count` elements, moving one frame at a time between ranks drawn by
// `seed`. A link holds one frame: the least a socket can hold.
void Simulate(int world_size, std::size_t count, bool is_small, uint64_t seed) {
  const auto world = static_cast<std::size_t>(world_size);
  std::vector<SimulatedRank> ranks(world);
  std::vector<std::vector<std::deque<std::vector<std::byte>>>> links(
      world, std::vector<std::deque<std::vector<std::byte>>>(world));
  for (std::size_t r = 0; r < world; ++r) {
    SimulatedRank& rank = ranks[r];
    rank.data.resize(count);
    std::iota(rank.data.begin(), rank.data.end(), static_cast<int32_t>(1000 * r));
    rank.buffers.of_peer.resize(world);
    rank.expected.resize(world);
    Call call;
    call.operation = Operation::kAllReduce;
    call.count = count;
    call.type = DataType::kInt32;
    const CallContext context{call, static_cast<int>(r), TimePoint(), Deadline::At(TimePoint())};
    auto* bytes = reinterpret_cast<std::byte*>(rank.data.data());
    rank.exchange = is_small ? MakeSmallAllReduce(context, world_size, bytes, rank.buffers)
                             : MakeSlicedAllReduce(context, world_size, bytes, rank.buffers);
  }

  Prng prng(seed);
  int idle = 0;
  const int idle_max = 200 * world_size * world_size;  // far past any unlucky draw
  while (idle < idle_max) {
    const std::size_t from = prng.Below(world);
    const std::size_t to = prng.Below(world);
    ++idle;
    if (from == to) {
      continue;
    }
    auto& link = links[from][to];
    if (link.empty()) {
      if (const auto out = ranks[from].exchange->NextOut(static_cast<int>(to))) {
        link.emplace_back(out->body.begin(), out->body.end());
        idle = 0;
      }
    }
    auto& expected = ranks[to].expected[from];
    if (!expected) {
      expected = ranks[to].exchange->NextIn(static_cast<int>(from));
    }
    if (expected && !link.empty() && prng.Below(2) == 0) {
      ASSERT_EQ(link.front().size(), expected->body.size());
      std::copy(link.front().begin(), link.front().end(), expected->body.begin());
      link.pop_front();
      expected.reset();
      ranks[to].exchange->Received(static_cast<int>(from));
      idle = 0;
    }
  }

  const auto rank_sum = static_cast<int32_t>(1000 * world * (world - 1) / 2);
  for (std::size_t r = 0; r < world; ++r) {
    for (std::size_t peer = 0; peer < world; ++peer) {
      ASSERT_TRUE(peer == r || ranks[r].exchange->IsCompleteWith(static_cast<int>(peer)))
          << "stuck: rank " << r << " with " << peer << ", world " << world << ", count " << count
          << ", seed " << seed;
    }
    ASSERT_EQ(ranks[r].exchange->MissingFrom(static_cast<int>((r + 1) % world)), 0U);
    ranks[r].exchange->Finish();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(ranks[r].data[i], rank_sum + static_cast<int32_t>(world * i))
          << "rank " << r << ", element " << i << ", seed " << seed;
    }
  }
}

TEST(Exchange, SmallAllReduceEndsWithTheSumWhateverTheOrder) {
  for (int world_size = 2; world_size <= 5; ++world_size) {
    for (const std::size_t count : {0, 1, 1000}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        Simulate(world_size, count, true, seed);
      }
    }
  }
}

TEST(Exchange, SlicedAllReduceEndsWithTheSumWhateverTheOrder) {
  constexpr std::size_t kChunk = 128 * 1024 / sizeof(int32_t);
  for (int world_size = 2; world_size <= 5; ++world_size) {
    const std::size_t world = static_cast<std::size_t>(world_size);
    for (const std::size_t count : {std::size_t{0},
                                    std::size_t{1},
                                    std::size_t{17},
                                    kChunk * world - 1,
                                    kChunk * world,
                                    kChunk * world + 1,
                                    kChunk * world * 3 + 16 * (world - 1) + 5}) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        Simulate(world_size, count, false, seed);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
