#include "trainer-runtime/supervisor/process_plan.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

WorkerEnvironment OfWorker0(int workers) {
  const JobTopology topology{"m", "n", {{Role::kWorker, workers, 1}}, DnsAddressing{}};
  return MakeWorkerEnvironment(topology, {{Role::kWorker, 0}, {}, Epoch(0), "uid"}).value();
}

// A lone program that was told of a cluster by its image would wait for peers that nobody starts.
TEST(ProcessPlan, TfConfigThatTheJobDoesNotGiveIsLeftOut) {
  const std::string foreign =
      R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})";
  const EnvironmentMap inherited = {{env::kTfConfig, foreign}, {"COLOR", "blue"}};

  const auto lone = PlanProcesses(OfWorker0(1), inherited, /*with_prefix=*/false);
  ASSERT_TRUE(lone.ok());
  EXPECT_EQ(lone->front().environment.count(env::kTfConfig), 0U);
  EXPECT_EQ(lone->front().environment.at("COLOR"), "blue");

  const auto pair = PlanProcesses(OfWorker0(2), inherited, /*with_prefix=*/false);
  ASSERT_TRUE(pair.ok());
  EXPECT_NE(pair->front().environment.at(env::kTfConfig), foreign);
}

}  // namespace
}  // namespace lockstep::runtime
