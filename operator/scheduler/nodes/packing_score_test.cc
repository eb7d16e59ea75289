#include "operator/scheduler/nodes/packing_score.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/scheduler/nodes/packing_index.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {
namespace {

constexpr int64_t kCore = 1000;  // thousandths

PackRequest Pod(int64_t cores, int64_t devices, int64_t milli = kDeviceMilli) {
  PackRequest request;
  request.amounts.cpu_milli = cores * kCore;
  request.device_count = devices;
  request.device_milli = milli;
  return request;
}

PackRoom Room(int64_t cores, std::vector<int64_t> devices, std::string model = "T4") {
  PackRoom room;
  room.free.cpu_milli = cores * kCore;
  room.free.memory_bytes = 64 * kGiB;
  room.device_milli_free = std::move(devices);
  room.model = std::move(model);
  return room;
}

TEST(FitsRoom, HeedsAmountsDevicesAndModels) {
  EXPECT_TRUE(FitsRoom(Room(8, {1000, 1000}), Pod(8, 2)));
  EXPECT_FALSE(FitsRoom(Room(7, {1000, 1000}), Pod(8, 2)));
  EXPECT_FALSE(FitsRoom(Room(8, {999, 1000}), Pod(8, 2)));
  EXPECT_FALSE(FitsRoom(Room(8, {1000}), Pod(8, 2)));
  EXPECT_TRUE(FitsRoom(Room(8, {400, 600}), Pod(8, 1, 600)));
  EXPECT_FALSE(FitsRoom(Room(8, {400, 600}), Pod(8, 1, 700)));  // not out of two

  PackRequest choosy = Pod(1, 1);
  choosy.models = {"A10", "V100"};
  EXPECT_FALSE(FitsRoom(Room(8, {1000}, "T4"), choosy));
  EXPECT_TRUE(FitsRoom(Room(8, {1000}, "V100"), choosy));

  PackRequest fabric = Pod(1, 0);
  fabric.amounts.Set("rdma/hca", 1);
  EXPECT_FALSE(FitsRoom(Room(8, {}), fabric));
}

TEST(RoomAfter, TakesPartOfTheDeviceNamed) {
  const PackRoom after = RoomAfter(Room(8, {300, 700, 1000}), Pod(2, 1, 200), 700);
  EXPECT_EQ(after, Room(6, {300, 500, 1000}));
  EXPECT_EQ(RoomAfter(Room(8, {300, 700, 1000}), Pod(2, 1, 800), 1000), Room(6, {200, 300, 700}));
}

TEST(RoomAfter, TakesWholeDevices) {
  EXPECT_EQ(RoomAfter(Room(8, {300, 1000, 1000}), Pod(2, 2), 0), Room(6, {0, 0, 300}));
}

TEST(PackingScore, GpusWithoutCoresAreWorthNothing) {
  PackingScore score({.stream_count = 4});
  score.Observe(Pod(8, 1));
  EXPECT_EQ(score.Worth(Room(32, {1000, 1000, 1000, 1000})), 4 * 4000);
  EXPECT_EQ(score.Worth(Room(17, {1000, 1000, 1000, 1000})), 4 * 2000);
  EXPECT_EQ(score.Worth(Room(7, {1000, 1000, 1000, 1000})), 0);
}

TEST(PackingScore, ResourceOfAnyNameBinds) {
  PackingScore score({.stream_count = 4});
  PackRequest fabric = Pod(1, 1);
  fabric.amounts.Set("rdma/hca", 1);
  score.Observe(fabric);
  PackRoom room = Room(32, {1000, 1000});
  EXPECT_EQ(score.Worth(room), 0);
  room.free.Set("rdma/hca", 1);
  EXPECT_EQ(score.Worth(room), 4 * 1000);
}

TEST(PackingScore, RestOfDeviceThatNobodyAsksForIsWorthNothing) {
  PackingScore score({.stream_count = 4});
  score.Observe(Pod(1, 1, 400));
  EXPECT_EQ(score.Worth(Room(32, {399})), 0);
  EXPECT_EQ(score.Worth(Room(32, {900})), 4 * 800);
}

TEST(PackingScore, ModelThatNobodyAsksForIsWorthNothing) {
  PackingScore score;
  PackRequest choosy = Pod(1, 1);
  choosy.models = {"V100"};
  score.Observe(choosy);
  EXPECT_EQ(score.Worth(Room(8, {1000}, "T4")), 0);
  EXPECT_GT(score.Worth(Room(8, {1000}, "V100")), 0);
}

TEST(PackingScore, WithoutDemandNothingIsWorthAnything) {
  PackingScore score;
  score.Observe(Pod(4, 0));
  EXPECT_EQ(score.Worth(Room(8, {1000})), 0);
}

TEST(PackingScore, EqualObservationsGiveEqualAnswers) {
  PackingScore one;
  PackingScore other;
  Prng prng(1);
  for (int i = 0; i < 300; ++i) {
    const PackRequest pod = Pod(1 + static_cast<int64_t>(prng.Below(12)),
                                1,
                                100 * (1 + static_cast<int64_t>(prng.Below(10))));
    one.Observe(pod);
    other.Observe(pod);
    one.Worth(Room(static_cast<int64_t>(prng.Below(64)), {500, 1000}));  // leaves no trace
  }
  EXPECT_EQ(one.Worth(Room(20, {300, 1000})), other.Worth(Room(20, {300, 1000})));
  EXPECT_GT(one.Worth(Room(20, {300, 1000})), 0);
}

TEST(PackingScore, OldDemandFades) {
  PackingScore score({.stream_count = 4, .halving_count = 64});
  for (int i = 0; i < 32; ++i) {
    score.Observe(Pod(1, 1));
  }
  for (int i = 0; i < 1024; ++i) {
    score.Observe(Pod(8, 1));
  }
  EXPECT_EQ(score.Worth(Room(7, {1000})), 0);  // the small pods are forgotten
  EXPECT_EQ(score.Worth(Room(8, {1000})), 4 * 1000);
}

TEST(PackingScore, KindsThatAreRememberedAreBounded) {
  PackingScore score({.stream_count = 4, .shapes_max = 8});
  for (int i = 0; i < 100; ++i) {
    score.Observe(Pod(1, 1));
    score.Observe(Pod(100 + i, 1));  // each a kind of its own
  }
  EXPECT_LE(score.kind_count(), 8U);
  EXPECT_EQ(score.Worth(Room(4, {1000})), 4 * 1000);  // what is frequent stays
}

TEST(PackingScore, LossesCountInStepsRoundedUp) {
  const PackingScore score({.stream_count = 2});  // a step is 100
  EXPECT_EQ(score.LossSteps(0), 0);
  EXPECT_EQ(score.LossSteps(1), 1);
  EXPECT_EQ(score.LossSteps(100), 1);
  EXPECT_EQ(score.LossSteps(101), 2);
  EXPECT_EQ(score.LossSteps(-99), 0);
  EXPECT_EQ(score.LossSteps(-100), -1);
}

// The demand and the nodes of one story, and where one more pod goes.
std::string ChosenNode(const std::vector<PackRequest>& demand,
                       const std::map<std::string, PackRoom>& nodes,
                       const PackRequest& pod) {
  PackingScore score;
  PackingIndex index(&score);
  for (int i = 0; i < 50; ++i) {
    std::for_each(demand.begin(), demand.end(), [&](const auto& one) { score.Observe(one); });
  }
  for (const auto& [name, room] : nodes) {
    index.SetNode(name, room);
  }
  const auto choice = index.Choose(pod);
  return choice ? choice->node : "";
}

TEST(PackingIndex, PodWithoutGpusLeavesCoresToGpus) {
  const std::map<std::string, PackRoom> nodes = {{"a-tight", Room(16, {1000, 1000})},
                                                 {"b-ample", Room(64, {1000, 1000})}};
  EXPECT_EQ(ChosenNode({Pod(8, 1)}, nodes, Pod(16, 0)), "b-ample");
}

TEST(PackingIndex, PartOfGpuGoesToOneThatIsSharedAlready) {
  const std::map<std::string, PackRoom> nodes = {{"a", Room(64, {1000, 1000})},
                                                 {"b", Room(64, {500, 1000})}};
  EXPECT_EQ(ChosenNode({Pod(1, 1), Pod(1, 1, 500)}, nodes, Pod(1, 1, 500)), "b");
}

TEST(PackingIndex, NodeForEightStaysWholeForThoseWhoNeedIt) {
  const std::vector<int64_t> eight(8, 1000);
  const std::map<std::string, PackRoom> nodes = {{"a", Room(64, eight)},
                                                 {"b", Room(64, {1000, 1000})}};
  EXPECT_EQ(ChosenNode({Pod(1, 1), Pod(1, 8)}, nodes, Pod(1, 1)), "b");
}

TEST(PackingIndex, ModelIsKeptForThoseWhoNeedIt) {
  PackRequest choosy = Pod(1, 1);
  choosy.models = {"V100"};
  const std::map<std::string, PackRoom> nodes = {{"a", Room(64, {1000}, "V100")},
                                                 {"b", Room(64, {1000}, "T4")}};
  EXPECT_EQ(ChosenNode({choosy, Pod(1, 1)}, nodes, Pod(1, 1)), "b");
  EXPECT_EQ(ChosenNode({choosy, Pod(1, 1)}, nodes, choosy), "a");
}

TEST(PackingIndex, OfEqualNodesTheFirstByName) {
  const std::map<std::string, PackRoom> nodes = {{"b", Room(64, {1000})}, {"a", Room(64, {1000})}};
  EXPECT_EQ(ChosenNode({Pod(1, 1)}, nodes, Pod(1, 1)), "a");
}

TEST(PackingIndex, PodThatFitsNowhereGoesNowhere) {
  EXPECT_EQ(ChosenNode({Pod(1, 1)}, {{"a", Room(64, {1000})}}, Pod(1, 2)), "");
}

TEST(PackingIndex, NodeThatWasRemovedIsNotChosen) {
  PackingScore score;
  PackingIndex index(&score);
  index.SetNode("a", Room(8, {1000}));
  index.RemoveNode("a");
  EXPECT_EQ(index.Choose(Pod(1, 1)), std::nullopt);
}

// What the index keeps of groups and earlier answers must show nowhere.
TEST(PackingIndex, ChoosesAsIfEveryNodeWereLookedAtEachTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Prng prng(seed);
    PackingScore score({.stream_count = 4, .stream_pods = 12});
    PackingIndex index(&score);
    std::map<std::string, PackRoom> rooms;
    for (int i = 0; i < 12; ++i) {
      rooms["n" + std::to_string(i)] = Room(8 << prng.Below(3),
                                            std::vector<int64_t>(prng.Below(5), 1000),
                                            prng.Below(2) == 0 ? "T4" : "V100");
    }
    for (const auto& [name, room] : rooms) {
      index.SetNode(name, room);
    }
    for (int i = 0; i < 80; ++i) {
      PackRequest pod =
          Pod(1 + static_cast<int64_t>(prng.Below(4)), static_cast<int64_t>(prng.Below(3)));
      pod.device_milli =
          pod.device_count == 1 ? 250 * (1 + static_cast<int64_t>(prng.Below(4))) : kDeviceMilli;
      if (prng.Below(4) == 0) {
        pod.models = {"V100"};
      }
      score.Observe(pod);
      std::string best_node;
      PackFit best_fit;
      PackRoom best_after;
      for (const auto& [name, room] : rooms) {
        const auto fit = score.BestFit(room, pod);
        if (fit && (best_node.empty() || score.IsBetter(*fit, best_fit))) {
          best_node = name;
          best_fit = *fit;
          best_after = RoomAfter(room, pod, fit->device_milli_free);
        }
      }
      const auto choice = index.Choose(pod);
      ASSERT_EQ(choice ? choice->node : "", best_node) << "seed " << seed << ", pod " << i;
      if (choice) {
        ASSERT_EQ(choice->room_after, best_after) << "seed " << seed << ", pod " << i;
        rooms[choice->node] = choice->room_after;
        index.SetNode(choice->node, choice->room_after);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::control
