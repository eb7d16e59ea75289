#include "trainer-runtime/collectives/nccl/nccl_agreement.h"

#include <cstdlib>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::Each;
using testing::EndsWith;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;

// What one rank says, and the GPUs that it has.
struct Said {
  int version = 22809;
  std::vector<std::string> uuids;
  NcclObstacleKind lack = NcclObstacleKind::kNone;
  std::string words = {};
};

std::string Words(const std::vector<Said>& ranks) {
  std::vector<NcclHello> hellos;
  std::vector<NcclDeviceName> names;
  for (const Said& said : ranks) {
    NcclOffer offer;
    offer.device_count = static_cast<int>(said.uuids.size());
    offer.lack = said.lack;
    offer.words = said.words;
    hellos.push_back(MakeNcclHello(offer));
    hellos.back().version = said.version;
    for (const std::string& uuid : said.uuids) {
      names.push_back(MakeNcclDeviceName(uuid));
    }
  }
  const std::optional<NcclObstacle> obstacle = FindNcclObstacle(hellos, names);
  return obstacle.has_value()
             ? NcclObstacleWord(obstacle->kind) + std::string(": ") + obstacle->sentence
             : "none";
}

TEST(FindNcclObstacle, SaysWhoCannotBeJoined) {
  using Kind = NcclObstacleKind;
  EXPECT_EQ(Words({{22809, {"GPU-a"}}}), "none");
  EXPECT_EQ(Words({{22809, {"GPU-a"}}, {22809, {"GPU-b"}}, {22807, {"GPU-c"}}}),
            "releases-differ: the version of NCCL differs: rank 0 has 2.28.9, rank 2 has 2.28.7. "
            "NCCL needs the same version on all ranks: use the same image for all workers");
  EXPECT_EQ(Words({{22809, {"GPU-a", "GPU-b"}}, {22809, {"GPU-c", "GPU-d"}}}), "none");
  EXPECT_THAT(
      Words({{22809, {"GPU-a"}}, {22809, {"GPU-b"}}, {23007, {"GPU-c"}}}),
      StartsWith(
          "releases-differ: the version of NCCL differs: rank 0 has 2.28.9, rank 2 has 2.30.7. "));
  EXPECT_EQ(Words({{22809, {"GPU-a"}}, {22809, {"GPU-b"}}, {22809, {"GPU-b"}}}),
            "shared-gpu: rank 1 and rank 2 would both use GPU-b, and NCCL allows only one rank on "
            "each GPU");
  EXPECT_EQ(Words({{22809, {"GPU-a", "GPU-b"}}, {22809, {"GPU-c", "GPU-a"}}}),
            "shared-gpu: rank 0 and rank 1 would both use GPU-a, and NCCL allows only one rank on "
            "each GPU");
  EXPECT_EQ(Words({{22809, {"GPU-a", "GPU-b"}}, {22809, {"GPU-c"}}}),
            "devices-differ: the number of GPUs differs: rank 0 has 2, rank 1 has 1");
  EXPECT_EQ(Words({{22809, {"GPU-a"}}, {22809, {"GPU-b"}, Kind::kStuck}}),
            "stuck: rank 1 cannot join: one of its earlier NCCL calls has not returned");
}

// What a rank lacks comes before what differs because of that.
TEST(FindNcclObstacle, SaysWhatARankLacksInItsOwnWords) {
  using Kind = NcclObstacleKind;

  const struct {
    Kind kind;
    const char* word;
  } rows[] = {{Kind::kNoDevice, "no-gpu"},
              {Kind::kNoLibrary, "no-library"},
              {Kind::kOldLibrary, "old-library"},
              {Kind::kUnusable, "unusable"},
              {Kind::kMayBlock, "may-block"}};

  for (const auto& [kind, word] : rows) {
    EXPECT_EQ(Words({{22809, {"GPU-a"}}, {0, {"GPU-b"}, kind, "no such thing"}}),
              std::string(word) + ": rank 1: no such thing");
  }
  EXPECT_EQ(Words({{22809, {"GPU-a"}}, {22809, {"GPU-b"}, Kind::kFailedToJoin, "NCCL says: no"}}),
            "failed-to-join: rank 1 could not join with NCCL: NCCL says: no");
}

// As long as NCCL's own sentences get.
TEST(FindNcclObstacle, SentenceOfNcclIsToldWhole) {
  const std::string sentence(400, 'x');
  EXPECT_EQ(Words({{22809, {"GPU-a"}, NcclObstacleKind::kFailedToJoin, sentence}}),
            "failed-to-join: rank 0 could not join with NCCL: " + sentence);
}

TEST(FindNcclObstacle, LongNamesAndWordsAreCutAndStillTold) {
  const std::string slice = "MIG-" + std::string(100, 'x');
  EXPECT_THAT(Words({{22809, {slice}}, {22809, {slice}}}),
              StartsWith("shared-gpu: rank 0 and rank 1 would both use MIG-xx"));
  EXPECT_THAT(Words({{0, {"GPU-a"}, NcclObstacleKind::kUnusable, std::string(1000, 'y')}}),
              AllOf(StartsWith("unusable: rank 0: yyyy"), EndsWith("yyy...")));
}

// --- What a machine has ---

class OfferNcclTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("FAKE_CUDA_DEVICES", "2", 1); }

  void TearDown() override { ::unsetenv("FAKE_CUDA_DEVICES"); }
};

TEST_F(OfferNcclTest, HasTheDevicesThatTheEnginesHave) {
  constexpr int kDevices[] = {1, 0};
  const NcclOffer offer = OfferNccl(kDevices, FakeFiles("2.30"));
  ASSERT_NE(offer.ground, nullptr) << offer.words;
  EXPECT_EQ(offer.device_count, 2);
  EXPECT_EQ(offer.ground->devices[0]->number(), 1);
  EXPECT_EQ(offer.ground->devices[1]->number(), 0);
}

TEST_F(OfferNcclTest, SaysWhatIsMissing) {
  constexpr int kDevices[] = {0};
  constexpr int kThird[] = {2};
  const auto lack = [](std::span<const int> devices, const NcclFiles& files) {
    const NcclOffer offer = OfferNccl(devices, files);
    EXPECT_EQ(offer.ground, nullptr);
    EXPECT_EQ(offer.device_count, static_cast<int>(devices.size()));
    return NcclObstacleWord(offer.lack) + std::string(": ") + offer.words;
  };
  EXPECT_EQ(lack({}, FakeFiles("2.30")), "no-gpu: its engine computes in host memory");
  EXPECT_THAT(lack(kDevices, {FakeNcclFile("2.30"), "libno-such-cuda.so.1"}),
              StartsWith("no-gpu: there is no NVIDIA driver here"));
  EXPECT_EQ(lack(kThird, FakeFiles("2.30")),
            "no-gpu: GPU 2 of this process does not exist: 2 visible");
  EXPECT_THAT(lack(kDevices, {"libno-such-nccl.so.2", FakeCudaFile()}),
              StartsWith("no-library: libno-such-nccl.so.2"));
  EXPECT_THAT(lack(kDevices, FakeFiles("2.13")),
              AllOf(StartsWith("old-library: "), HasSubstr("is NCCL 2.13.4, which cannot join")));
}

// --- What ranks come to, over each communicator ---

struct Came {
  bool has_obstacle = false;
  bool is_of_devices = false;
  std::string told;
};

// What each rank comes to, rank r with `offers[r]`.
std::vector<Came> Agree(Backend backend, const std::vector<NcclOffer>& offers) {
  std::vector<Came> came(offers.size());
  RunThreads(static_cast<int>(offers.size()), backend, [&](Communicator& control) {
    const auto rank = static_cast<std::size_t>(control.rank());
    const Result<NcclAgreement> agreed = AgreeOnNccl(offers[rank], &control, Soon());
    if (!agreed.ok()) {
      came[rank].told = agreed.error().ToString();
      return;
    }
    came[rank] = {agreed->obstacle.has_value(),
                  agreed->is_of_devices,
                  agreed->obstacle.has_value() ? agreed->obstacle->sentence : "joined"};
    EXPECT_TRUE(control.Barrier(Soon()).ok());
  });
  return came;
}

// One process of the test stands for three here, so its GPUs have to have three names.
class AgreeOnNcclTest : public OfferNcclTest, public testing::WithParamInterface<Backend> {
 protected:
  static NcclOffer WithDevice(int number) {
    ::setenv("FAKE_CUDA_DEVICES", "3", 1);
    const int devices[] = {number};
    return OfferNccl(devices, FakeFiles("2.30"));
  }

  static NcclOffer OnHost() { return OfferNccl({}); }

  static NcclOffer WithoutLibrary() {
    constexpr int kDevices[] = {0};
    return OfferNccl(kDevices, {"libno-such-nccl.so.2", FakeCudaFile()});
  }
};

INSTANTIATE_TEST_SUITE_P(Backends,
                         AgreeOnNcclTest,
                         testing::Values(Backend::kSharedMemory, Backend::kTcp),
                         [](const auto& test) { return BackendText(test.param); });

TEST_P(AgreeOnNcclTest, WhereAllCanAllDo) {
  for (const Came& came : Agree(GetParam(), {WithDevice(0), WithDevice(1), WithDevice(2)})) {
    EXPECT_EQ(came.told, "joined");
    EXPECT_TRUE(came.is_of_devices);
  }
}

TEST_P(AgreeOnNcclTest, OneThatCannotIsHeardByAll) {
  const std::vector<Came> no_library =
      Agree(GetParam(), {WithDevice(0), WithoutLibrary(), WithDevice(2)});
  EXPECT_THAT(no_library, Each(Field(&Came::told, StartsWith("rank 1: libno-such-nccl.so.2"))));
  EXPECT_THAT(no_library, Each(Field(&Came::is_of_devices, true)));

  const std::vector<Came> on_host = Agree(GetParam(), {WithDevice(0), WithDevice(1), OnHost()});
  EXPECT_THAT(on_host, Each(Field(&Came::told, "rank 2: its engine computes in host memory")));
  EXPECT_THAT(on_host, Each(Field(&Came::is_of_devices, true)));

  const std::vector<Came> shared = Agree(GetParam(), {WithDevice(0), WithDevice(1), WithDevice(1)});
  EXPECT_THAT(shared, Each(Field(&Came::told, StartsWith("rank 1 and rank 2 would both use"))));
}

// A job that insists may have both: they would not put the same sums into NCCL.
TEST_P(AgreeOnNcclTest, RanksThatComputeElsewhereThanOnTheirGpusAreTwoOfAKindOrNone) {
  std::vector<NcclOffer> offers = {WithDevice(0), WithDevice(1)};
  offers[1].is_staged = true;
  EXPECT_THAT(Agree(GetParam(), offers),
              Each(Field(&Came::told, "rank 1 computes in host memory, and rank 0 on its GPU")));
  offers[0].is_staged = true;
  EXPECT_THAT(Agree(GetParam(), offers), Each(Field(&Came::told, "joined")));
  offers[1].is_staged = false;
  EXPECT_THAT(Agree(GetParam(), offers),
              Each(Field(&Came::told, "rank 0 computes in host memory, and rank 1 on its GPU")));
}

TEST_P(AgreeOnNcclTest, WhereNobodyHasADeviceNobodyMissesNccl) {
  const std::vector<Came> came = Agree(GetParam(), {OnHost(), OnHost()});
  EXPECT_THAT(came, Each(Field(&Came::has_obstacle, true)));
  EXPECT_THAT(came, Each(Field(&Came::is_of_devices, false)));
}

// It is replaced, and the others meet its successor: that is no reason to do without.
TEST_P(AgreeOnNcclTest, RankThatIsStuckEndsTheMeeting) {
  const std::vector<NcclOffer> offers = {WithDevice(0), WithDevice(1)};
  offers[1].ground->is_stuck.store(true);
  const std::vector<Came> came = Agree(GetParam(), offers);
  EXPECT_THAT(came[0].told, StartsWith("rank 1 cannot join: one of its earlier"));
  EXPECT_EQ(came[1].told, "an earlier NCCL call has not returned in this process");
}

}  // namespace
}  // namespace lockstep::runtime
