#include "trainer-runtime/supervisor/peers/horovod_gate.h"

#include <array>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/peers/horovod_rendezvous.h"

namespace lockstep::runtime {
namespace {

std::string Asked(const HorovodGate& gate) {
  const HorovodGate::Request request = gate.NextRequest();
  return request.method + " " + request.path;
}

TEST(HorovodGate, TellsThenAsksForOnePodAfterTheOther) {
  HorovodGate gate(Attempt(3), 1, 2);
  EXPECT_EQ(Asked(gate), "PUT /lockstep_start_3/1");
  EXPECT_TRUE(gate.TakeAnswer(200));
  EXPECT_EQ(Asked(gate), "GET /lockstep_start_3/0");
  EXPECT_TRUE(gate.TakeAnswer(200));
  EXPECT_EQ(Asked(gate), "GET /lockstep_start_3/1");
  EXPECT_FALSE(gate.is_open());
  EXPECT_FALSE(gate.TakeAnswer(200)) << "there is nothing left to ask";
  EXPECT_TRUE(gate.is_open());
}

TEST(HorovodGate, AsksAgainForWhatIsNotThere) {
  HorovodGate gate(Attempt(0), 0, 1);
  EXPECT_EQ(gate.awaited_pod(), std::nullopt);
  for (const std::optional<int> answer : {std::optional<int>(), std::optional(507)}) {
    EXPECT_FALSE(gate.TakeAnswer(answer));
    EXPECT_EQ(Asked(gate), "PUT /lockstep_start_0/0");
  }
  gate.TakeAnswer(200);
  EXPECT_FALSE(gate.TakeAnswer(404));
  EXPECT_EQ(Asked(gate), "GET /lockstep_start_0/0");
  EXPECT_EQ(gate.awaited_pod(), 0);
}

WorkerEnvironment PodOfTwo(int rank) {
  WorkerEnvironment environment;
  environment.rank = rank;
  environment.world_size = 2;
  environment.host = rank == 0 ? "127.0.0.1" : "elsewhere";
  environment.master = {"127.0.0.1", 29500};
  environment.bind_address = "127.0.0.1";
  environment.horovod_port = 0;
  return environment;
}

class HorovodGateOfTwo : public ::testing::Test {
 protected:
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
};

TEST_F(HorovodGateOfTwo, OpensOnceBothAreThere) {
  auto server = ServeHorovod(PodOfTwo(0), logger_.get());
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  std::array<bool, 2> has_opened{};
  std::vector<std::jthread> pods;
  for (const int rank : {0, 1}) {
    pods.emplace_back([this, &has_opened, rank, port = (*server)->port()] {
      WorkerEnvironment environment = PodOfTwo(rank);
      environment.horovod_port = port;
      // A gate that stays shut is a test that times out.
      has_opened[rank] = WaitAtHorovodGate(
          environment, Deadline::At(TimePoint::max()), [] { return false; }, logger_.get());
    });
  }
  pods.clear();
  EXPECT_TRUE(has_opened[0]);
  EXPECT_TRUE(has_opened[1]);
}

TEST_F(HorovodGateOfTwo, IsLeftWhenAskedToEnd) {
  auto server = ServeHorovod(PodOfTwo(0), logger_.get());
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  WorkerEnvironment environment = PodOfTwo(1);
  environment.horovod_port = (*server)->port();
  int tries = 0;
  EXPECT_FALSE(WaitAtHorovodGate(
      environment,
      Deadline::At(TimePoint::max()),
      [&tries] { return ++tries > 3; },
      logger_.get()));
  EXPECT_EQ(tries, 4) << "rank 0 never came";
}

TEST_F(HorovodGateOfTwo, IsLeftWhenTheTimeToMeetIsOver) {
  WorkerEnvironment environment = PodOfTwo(1);
  environment.horovod_port = 1;  // nobody listens there
  bool was_asked = false;
  EXPECT_FALSE(WaitAtHorovodGate(
      environment,
      Deadline::After(SteadyNow(), std::chrono::seconds(0)),
      [&was_asked] {
        was_asked = true;
        return false;
      },
      logger_.get()));
  EXPECT_TRUE(was_asked);
}

TEST_F(HorovodGateOfTwo, WaitsAsLongAsPodsMayTakeToStart) {
  WorkerEnvironment environment = PodOfTwo(1);
  EXPECT_EQ(HorovodGatePatience(environment), std::chrono::hours(1));
  environment.rendezvous_timeout = std::chrono::hours(3);
  EXPECT_EQ(HorovodGatePatience(environment), std::chrono::hours(3));
}

}  // namespace
}  // namespace lockstep::runtime
