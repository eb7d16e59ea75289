#include "trainer-runtime/supervisor/status/tf_config_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/environment/tf_config.h"

namespace lockstep::runtime {
namespace {

using ::testing::EndsWith;

WorkerEnvironment OfWorker(int index, int workers, int processes, const std::string& job = "m") {
  const JobTopology topology{job, "n", {{Role::kWorker, workers, processes}}, DnsAddressing{}};
  return MakeWorkerEnvironment(topology, {{Role::kWorker, index}, {}, Epoch(0), "uid"}).value();
}

std::string Ask(const HttpRoutes& routes, const std::string& path) {
  const HttpServerResponse answer = routes.at(path).at("GET")(HttpServerRequest());
  EXPECT_EQ(answer.status, 200);
  return answer.body;
}

GangStart First() {
  return {};
}

// What TensorFlow reads of it is what the process has in its environment.
TEST(TfConfigEndpoint, EachProcessOfAPodHasADocumentOfItsOwn) {
  const WorkerEnvironment environment = OfWorker(1, 2, 2);
  const HttpRoutes routes = MakeTfConfigRoutes(environment, First);
  ASSERT_EQ(routes.size(), 2U);
  for (int local_rank = 0; local_rank < 2; ++local_rank) {
    const EnvironmentMap variables = RenderEnvironmentForProcess(environment, local_rank).value();
    const std::string served = Ask(routes, "/tf_config/" + std::to_string(local_rank));
    const TfConfig config = ParseTfConfig(served).value();
    EXPECT_EQ(config, ParseTfConfig(variables.at(env::kTfConfig)).value());
    EXPECT_EQ(config.task, (TaskId{Role::kWorker, 2 + local_rank}));
  }
}

TEST(TfConfigEndpoint, StartOfTheGangIsThatOfTheMoment) {
  GangStart start{Attempt(3), Epoch(5)};
  const HttpRoutes routes = MakeTfConfigRoutes(OfWorker(0, 2, 1), [&start] { return start; });
  EXPECT_THAT(Ask(routes, "/tf_config/0"), EndsWith(R"("attempt":3,"epoch":5})"));
  start = {Attempt(4), Epoch(9)};
  EXPECT_THAT(Ask(routes, "/tf_config/0"), EndsWith(R"("attempt":4,"epoch":9})"));
}

TEST(TfConfigEndpoint, ProcessThatIsAloneHasAnEmptyCluster) {
  EXPECT_EQ(Ask(MakeTfConfigRoutes(OfWorker(0, 1, 1), First), "/tf_config/0"),
            R"({"cluster":{},"task":{"type":"worker","index":0},"attempt":0,"epoch":0})");
}

// The case that the environment cannot have.
TEST(TfConfigEndpoint, ClusterOfAnySizeIsServedInFull) {
  const WorkerEnvironment environment = OfWorker(2999, 3000, 1, "a-job-with-a-name-of-some-length");
  const std::string served = Ask(MakeTfConfigRoutes(environment, First), "/tf_config/0");
  EXPECT_GT(served.size(), kTfConfigBytesMax);
  EXPECT_THAT(served, EndsWith(R"("task":{"type":"worker","index":2999},"attempt":0,"epoch":0})"));
}

TEST(TfConfigEndpoint, ItIsServedOnLoopbackOnly) {
  WorkerEnvironment environment = OfWorker(0, 2, 1);
  EXPECT_EQ(environment.bind_address, "0.0.0.0");
  EXPECT_EQ(TfConfigUrl(environment, 40000, 1), "http://127.0.0.1:40000/tf_config/1");
  environment.bind_address = "127.83.7.2";
  EXPECT_EQ(TfConfigUrl(environment, 40000, 0), "http://127.83.7.2:40000/tf_config/0");

  const std::unique_ptr<Logger> logger = MakeNullLogger();
  const auto server =
      ServeToPrograms(environment, MakeTfConfigRoutes(environment, First), logger.get());
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  EXPECT_GT((*server)->port(), 0);
  environment.bind_address = "203.0.113.7";  // of nobody here: it is not asked for
  EXPECT_TRUE(
      ServeToPrograms(environment, MakeTfConfigRoutes(environment, First), logger.get()).ok());
}

}  // namespace
}  // namespace lockstep::runtime
