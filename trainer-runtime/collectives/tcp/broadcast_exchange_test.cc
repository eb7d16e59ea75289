#include <deque>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "trainer-runtime/collectives/tcp/broadcast_tree.h"
#include "trainer-runtime/collectives/tcp/exchange.h"

namespace lockstep::runtime {
namespace {

struct Frame {
  std::optional<Call> call;
  std::vector<std::byte> body;
};

struct BroadcastingRank {
  Call call;
  std::vector<std::byte> data;
  std::unique_ptr<Exchange> exchange;
  std::vector<std::optional<Exchange::InFrame>> expected;  // by peer
  std::vector<std::deque<Frame>> inbox;                    // by peer
  std::size_t bytes_in = 0;
  std::size_t bytes_out = 0;
  std::size_t frame_bytes_max = 0;
};

using World = std::vector<BroadcastingRank>;

// The byte at `index` of what the root has: differs from piece to piece.
std::byte ByteAt(std::size_t index) {
  return static_cast<std::byte>(index * 7 + index / 251);
}

World MakeWorld(const std::vector<bool>& holds, int root, std::size_t byte_count) {
  World world(holds.size());
  for (std::size_t r = 0; r < world.size(); ++r) {
    BroadcastingRank& rank = world[r];
    rank.call.operation = Operation::kBroadcast;
    rank.call.count = byte_count;
    rank.call.root = root;
    rank.call.holds = holds[r] ? 1 : 0;
    rank.data.resize(byte_count);
    for (std::size_t i = 0; i < byte_count && holds[r]; ++i) {
      rank.data[i] = ByteAt(i);
    }
    const CallContext context{
        rank.call, static_cast<int>(r), TimePoint(), Deadline::At(TimePoint())};
    rank.exchange = MakeBroadcast(context, static_cast<int>(world.size()), rank.data.data());
    rank.expected.resize(world.size());
    rank.inbox.resize(world.size());
  }
  return world;
}

// Moves at most one frame from one rank to the other. A link holds one: the least a socket can
// hold. Returns whether anything moved.
bool Move(World& world, std::size_t from, std::size_t to) {
  BroadcastingRank& sender = world[from];
  BroadcastingRank& receiver = world[to];
  std::deque<Frame>& link = receiver.inbox[from];
  if (link.empty()) {
    if (const auto out = sender.exchange->NextOut(static_cast<int>(to))) {
      link.push_back({out->has_call ? std::optional(sender.call) : std::nullopt,
                      {out->body.begin(), out->body.end()}});
      sender.bytes_out += out->body.size();
      sender.frame_bytes_max = std::max(sender.frame_bytes_max, out->body.size());
    }
  }
  auto& expected = receiver.expected[from];
  if (!expected) {
    expected = receiver.exchange->NextIn(static_cast<int>(from));
  }
  if (!expected || link.empty()) {
    return false;
  }
  const Frame frame = std::move(link.front());
  link.pop_front();
  EXPECT_EQ(frame.body.size(), expected->body.size());
  std::copy(frame.body.begin(), frame.body.end(), expected->body.begin());
  receiver.bytes_in += frame.body.size();
  expected.reset();
  if (frame.call.has_value()) {
    receiver.exchange->HeardCall(static_cast<int>(from), *frame.call);
  }
  receiver.exchange->Received(static_cast<int>(from));
  return true;
}

// Until nothing has moved for far longer than any unlucky draw.
void MoveAll(World& world, uint64_t seed) {
  Prng prng(seed);
  const std::size_t idle_max = 200 * world.size() * world.size();
  for (std::size_t idle = 0; idle < idle_max; ++idle) {
    const std::size_t from = prng.Below(world.size());
    const std::size_t to = prng.Below(world.size());
    if (from != to && Move(world, from, to)) {
      idle = 0;
    }
  }
}

void ExpectAllHave(const World& world, const std::string& what) {
  for (std::size_t r = 0; r < world.size(); ++r) {
    for (std::size_t peer = 0; peer < world.size(); ++peer) {
      ASSERT_TRUE(peer == r || world[r].exchange->IsCompleteWith(static_cast<int>(peer)))
          << what << ": stuck: rank " << r << " with " << peer;
    }
    for (std::size_t i = 0; i < world[r].data.size(); ++i) {
      ASSERT_EQ(world[r].data[i], ByteAt(i)) << what << ": rank " << r << ", byte " << i;
    }
  }
}

TEST(BroadcastExchange, EndsWithTheRootsBytesWhoeverHeldThemBefore) {
  for (const std::size_t byte_count : {0, 1, 64 * 1024, 64 * 1024 + 1, 300'000}) {
    for (uint64_t seed = 0; seed < 32; ++seed) {
      std::vector<bool> holds(2 + seed % 5);
      for (std::size_t rank = 0; rank < holds.size(); ++rank) {
        holds[rank] = (seed >> rank & 1) != 0;
      }
      const std::size_t root = seed % holds.size();
      holds[root] = true;
      World world = MakeWorld(holds, static_cast<int>(root), byte_count);
      MoveAll(world, seed);
      ExpectAllHave(world, std::to_string(byte_count) + " bytes, seed " + std::to_string(seed));
    }
  }
}

TEST(BroadcastExchange, RanksThatHoldTheBytesGetNone) {
  World world = MakeWorld({true, true, false}, 0, 1'000'000);
  MoveAll(world, 1);
  EXPECT_EQ(world[0].bytes_in, 0U);
  EXPECT_EQ(world[1].bytes_in, 0U);
  EXPECT_EQ(world[2].bytes_in, 1'000'000U);
}

TEST(BroadcastExchange, WhereAllHoldTheBytesNobodySendsAny) {
  World world = MakeWorld({true, true, true}, 2, 1'000'000);
  MoveAll(world, 1);
  for (const BroadcastingRank& rank : world) {
    EXPECT_EQ(rank.bytes_out, 0U);
  }
}

TEST(BroadcastExchange, NobodySendsManyBytesMoreThanTwice) {
  World world = MakeWorld({true, false, false, false, false, false, false, false}, 0, 1'000'000);
  MoveAll(world, 1);
  for (const BroadcastingRank& rank : world) {
    EXPECT_LE(rank.bytes_out, std::size_t{BroadcastTree::kChildrenMax} * 1'000'000);
  }
}

TEST(BroadcastExchange, ManyBytesTravelInPieces) {
  World world = MakeWorld({true, false}, 0, 1'000'000);
  MoveAll(world, 1);
  EXPECT_LE(world[0].frame_bytes_max, std::size_t{256} * 1024);
}

}  // namespace
}  // namespace lockstep::runtime
