#include "common/contract/environment/cluster_shape.h"

#include <gtest/gtest.h>

#include "common/contract/environment/environment.h"

namespace lockstep {
namespace {

JobTopology LargeJob() {
  return {"large",
          "team",
          {{Role::kChief, 1, 2}, {Role::kWorker, 300, 2}, {Role::kPs, 3, 1}},
          DnsAddressing{"cluster.local"}};
}

TEST(ClusterShape, ComesBackAsTheSameTopology) {
  const JobTopology topology = LargeJob();
  const std::string text = EncodeClusterShape(topology);
  EXPECT_LT(text.size(), 200U);
  const auto parsed = ParseClusterShape(text, "large", "team");
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  EXPECT_EQ(WorldSize(*parsed), WorldSize(topology));
  EXPECT_EQ(RankOrder(*parsed), RankOrder(topology));
  EXPECT_EQ(parsed->addressing, topology.addressing);
}

TEST(ClusterShape, MistakesAreNamed) {
  for (const char* const text : {"",
                                 "[]",
                                 "{}",
                                 R"({"roles":[]})",
                                 R"({"roles":{}})",
                                 R"({"roles":{"boss":{"replicas":1,"processes":1}}})",
                                 R"({"roles":{"worker":{"replicas":5000,"processes":1}}})",
                                 R"({"roles":{"worker":{"replicas":2,"processes":1}},"more":1})"}) {
    EXPECT_FALSE(ParseClusterShape(text, "large", "team").ok()) << text;
  }
}

TEST(ClusterShape, PodsOfALargeJobKnowAsMuchAsThoseThatAreToldAll) {
  const JobTopology topology = LargeJob();
  // A chief, the first and the last workers, and the ps: the others differ in their index alone.
  std::vector<TaskId> tasks = AllTasks(topology);
  tasks.erase(tasks.begin() + 10, tasks.end() - 10);
  for (const TaskId& task : tasks) {
    const PodIdentity identity{task, {}, Epoch(1), "uid"};
    const auto shaped =
        MakeWorkerEnvironment(topology, identity, TfConfigForm::kShapeWhenLong).value();
    EXPECT_TRUE(shaped.tf_config.is_local());
    const auto variables = RenderEnvironment(shaped).value();
    EXPECT_EQ(variables.count(env::kTfConfig), 0U);
    auto parsed = ParseEnvironment(variables);
    ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
    EXPECT_EQ(parsed->tf_config, MakeWorkerEnvironment(topology, identity)->tf_config);
    // Its processes are told all.
    EXPECT_EQ(RenderEnvironment(*parsed)->count(env::kTfConfig), 1U);
  }
}

// TF_CONFIG of so many cannot be a variable at all: 4096 addresses are more than Linux passes on.
TEST(ClusterShape, ProcessesOfTheLargestJobAreToldWhoIsInIt) {
  const JobTopology topology = {
      "large", "team", {{Role::kWorker, kReplicasMax, 1}}, DnsAddressing{"cluster.local"}};
  const PodIdentity identity{{Role::kWorker, kReplicasMax - 1}, {}, Epoch(1), "uid"};
  const auto born = MakeWorkerEnvironment(topology, identity, TfConfigForm::kShapeWhenLong);
  ASSERT_TRUE(born.ok()) << born.error().ToString();
  const auto pod = ParseEnvironment(RenderEnvironment(*born).value());
  ASSERT_TRUE(pod.ok()) << pod.error().ToString();

  const auto process = RenderEnvironmentForProcess(*pod, 0);
  ASSERT_TRUE(process.ok()) << process.error().ToString();
  EXPECT_EQ(process->at("RANK"), "4095");
  EXPECT_EQ(process->at("WORLD_SIZE"), "4096");
  EXPECT_EQ(process->at("MASTER_ADDR"), "large-worker-0.large.team.svc.cluster.local");
  const auto decoded = ParseEnvironment(*process);
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  const auto addresses = RankAddresses(decoded->tf_config).value();
  ASSERT_EQ(addresses.size(), 4096U);
  EXPECT_EQ(FormatHostPort(addresses.back()),
            "large-worker-4095.large.team.svc.cluster.local:2222");
  EXPECT_EQ(TaskNumber(decoded->tf_config), 4095);
}

TEST(ClusterShape, SmallJobsAndThoseOfOneMachineAreToldAll) {
  JobTopology topology = LargeJob();
  const PodIdentity identity{{Role::kWorker, 0}, {}, Epoch(1), "uid"};
  const auto is_told_all = [&] {
    return MakeWorkerEnvironment(topology, identity, TfConfigForm::kShapeWhenLong)->cluster.empty();
  };
  EXPECT_FALSE(is_told_all());
  topology.addressing = LoopbackAddressing{"127.1.0"};
  EXPECT_TRUE(is_told_all());
  topology = {"small", "team", {{Role::kWorker, 8, 1}}, DnsAddressing{}};
  EXPECT_TRUE(is_told_all());
}

}  // namespace
}  // namespace lockstep
