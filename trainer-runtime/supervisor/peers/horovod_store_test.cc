#include "trainer-runtime/supervisor/peers/horovod_store.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

HorovodStoreOptions Small() {
  return {.world_size = 4,
          .processes = 2,
          .name_bytes_max = 32,
          .value_bytes_max = 8,
          .key_count_max = 4,
          .total_bytes_max = 40};
}

// All keys of two ranks are there, and the first has finished.
HorovodStore HalfFinished(const std::string& scope) {
  HorovodStore store(HorovodStoreFor(2, 1));
  for (const char* const key : {"rank_0", "0", "rank_1", "1"}) {
    EXPECT_EQ(store.Put(scope, key, key), HorovodPut::kStored);
  }
  store.Finish(scope, "0");
  return store;
}

TEST(HorovodStore, ValueIsFoundUnderItsScopeAndKeyOnly) {
  HorovodStore store(Small());
  EXPECT_EQ(store.Find("global", "0"), nullptr);
  EXPECT_EQ(store.Put("global", "0", std::string("a\0b", 3)), HorovodPut::kStored);
  ASSERT_NE(store.Find("global", "0"), nullptr);
  EXPECT_EQ(*store.Find("global", "0"), std::string("a\0b", 3));
  EXPECT_EQ(store.Find("global", "1"), nullptr);
  EXPECT_EQ(store.Find("cross_0", "0"), nullptr);
}

TEST(HorovodStore, EmptyValueIsThere) {
  HorovodStore store(Small());
  EXPECT_EQ(store.Put("cross_0", "0", ""), HorovodPut::kStored);
  ASSERT_NE(store.Find("cross_0", "0"), nullptr);
  EXPECT_EQ(*store.Find("cross_0", "0"), "");
}

TEST(HorovodStore, NewerValueTakesThePlaceOfTheOlder) {
  HorovodStore store(Small());
  store.Put("global", "0", "older");
  store.Put("global", "0", "new");
  EXPECT_EQ(*store.Find("global", "0"), "new");
  EXPECT_EQ(store.key_count(), 1U);
  EXPECT_EQ(store.total_bytes(), sizeof("global0new") - 1);
}

TEST(HorovodStore, NamesHaveNoSlashAndABound) {
  const HorovodStore store(Small());
  EXPECT_TRUE(store.IsName(std::string(32, 's'), "0"));
  EXPECT_FALSE(store.IsName(std::string(33, 's'), "0"));
  EXPECT_FALSE(store.IsName("global", std::string(33, 'k')));
  EXPECT_FALSE(store.IsName("", "0"));
  EXPECT_FALSE(store.IsName("global", ""));
  EXPECT_FALSE(store.IsName("global", "0/1"));
}

TEST(HorovodStore, ValueOfOneByteTooManyIsRefused) {
  HorovodStore store(Small());
  EXPECT_EQ(store.Put("s", "a", std::string(8, 'v')), HorovodPut::kStored);
  EXPECT_EQ(store.Put("s", "b", std::string(9, 'v')), HorovodPut::kValueTooLong);
  EXPECT_EQ(store.Find("s", "b"), nullptr);
}

TEST(HorovodStore, OneKeyTooManyIsRefusedAndKnownOnesAreNot) {
  HorovodStore store(Small());
  for (const char* const key : {"a", "b", "c", "d"}) {
    EXPECT_EQ(store.Put("s", key, ""), HorovodPut::kStored);
  }
  EXPECT_EQ(store.Put("s", "e", ""), HorovodPut::kTooManyKeys);
  EXPECT_EQ(store.Put("s", "a", "v"), HorovodPut::kStored);
  store.Finish("s", "b");
  EXPECT_EQ(store.Put("s", "e", ""), HorovodPut::kStored);
}

TEST(HorovodStore, BytesOfAllKeysAndValuesAreBounded) {
  HorovodStore store(Small());
  for (const char* const key : {"a", "b", "c", "d"}) {  // of ten bytes each, names included
    EXPECT_EQ(store.Put("s", key, std::string(8, 'v')), HorovodPut::kStored);
  }
  EXPECT_EQ(store.total_bytes(), 40U);
  store.Finish("s", "a");
  EXPECT_EQ(store.total_bytes(), 30U);
  EXPECT_EQ(store.Put("longer", "a", std::string(4, 'v')), HorovodPut::kTooManyBytes);
  EXPECT_EQ(store.Put("longer", "a", std::string(3, 'v')), HorovodPut::kStored);
}

TEST(HorovodStore, KeysStayUntilAllRanksOfTheScopeHaveFinished) {
  HorovodStore store = HalfFinished("global");
  ASSERT_NE(store.Find("global", "0"), nullptr) << "rank 1 may still be reading";
  store.Finish("global", "1");
  EXPECT_EQ(store.key_count(), 0U);
  EXPECT_EQ(store.total_bytes(), 0U);
  EXPECT_EQ(store.Find("global", "rank_0"), nullptr);
}

TEST(HorovodStore, RankThatFinishesTwiceIsCountedOnce) {
  HorovodStore store = HalfFinished("global");
  store.Finish("global", "0");
  EXPECT_EQ(store.key_count(), 4U);
}

TEST(HorovodStore, RankThatMeetsOnceMoreHasNotFinished) {
  HorovodStore store = HalfFinished("global");
  store.Put("global", "0", "again");
  store.Finish("global", "1");
  ASSERT_NE(store.Find("global", "0"), nullptr);
}

TEST(HorovodStore, ScopesOfAPodAndOfALocalRankHaveTheirOwnSizes) {
  HorovodStore store(HorovodStoreFor(6, 2));
  for (const char* const key : {"0", "1", "2"}) {
    store.Put("local_a", key, "");
    store.Put("cross_0", key, "");
  }
  store.Finish("local_a", "0");
  store.Finish("cross_0", "0");
  EXPECT_EQ(store.key_count(), 6U);
  store.Finish("local_a", "1");
  EXPECT_EQ(store.key_count(), 3U) << "two ranks of a pod";
  store.Finish("cross_0", "1");
  EXPECT_EQ(store.key_count(), 3U);
  store.Finish("cross_0", "2");
  EXPECT_EQ(store.key_count(), 0U) << "three pods";
}

TEST(HorovodStore, KeysOfProcessSetsGoOneByOne) {
  for (const std::string set : {"global_process_set_hash_a", "local_h_process_set_hash_a"}) {
    HorovodStore store = HalfFinished(set);
    EXPECT_EQ(store.Find(set, "0"), nullptr) << set;
    EXPECT_NE(store.Find(set, "1"), nullptr) << set;
    EXPECT_EQ(store.key_count(), 3U) << set;
  }
}

TEST(HorovodStore, WhatIsNotThereHasFinished) {
  HorovodStore store(HorovodStoreFor(1, 1));
  store.Finish("global", "0");
  EXPECT_EQ(store.Put("global", "0", "v"), HorovodPut::kStored);
  EXPECT_NE(store.Find("global", "0"), nullptr);
}

// Two scopes of all ranks whose values are all there at once, with 136 bytes for each peer.
TEST(HorovodStore, BoundsGrowWithTheRanks) {
  for (const int ranks : {1, 2, 64, 200}) {
    HorovodStore store(HorovodStoreFor(ranks, 1));
    const std::string value(136U * static_cast<std::size_t>(ranks - 1), 'v');
    for (const std::string scope : {"global", "global_process_set_hash_a"}) {
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(store.Put(scope, std::to_string(rank), value), HorovodPut::kStored) << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
