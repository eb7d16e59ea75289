#include "operator/replay/openb_replay.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

Result<OpenbTrace> ReadTrace(std::string_view nodes, std::string_view pods) {
  const auto node_table = CsvTable::Parse("nodes.csv", nodes, {});
  const auto pod_table = CsvTable::Parse("pods.csv", pods, {});
  return OpenbTrace::FromTables(*node_table, *pod_table);
}

constexpr std::string_view kNodes =
    "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,8192,2,T4\nn1,8000,8192,1,V100\n";

std::string TraceProblemOf(std::string_view nodes, std::string_view pods) {
  const auto trace = ReadTrace(nodes, pods);
  return trace.ok() ? "" : trace.error().ToString();
}

std::string PodProblem(const std::string& line) {
  return TraceProblemOf(kNodes, "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + line + "\n");
}

TEST(OpenbTrace, ReadsNodesAndPods) {
  const auto trace = ReadTrace(kNodes,
                               "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
                               "500,1024,1,460,V100|A10\n"
                               "500,1024,0,,\n");
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  EXPECT_EQ(trace->device_milli_total, 3000);
  EXPECT_EQ(trace->nodes[0].second.device_milli_free, (std::vector<int64_t>{1000, 1000}));
  EXPECT_EQ(trace->nodes[1].second.model, "V100");
  EXPECT_EQ(trace->pods[0].device_milli, 460);
  EXPECT_EQ(trace->pods[0].models, (std::vector<std::string>{"A10", "V100"}));
  EXPECT_EQ(trace->pods[0].amounts.memory_bytes, int64_t{1024} * 1024 * 1024);
  EXPECT_EQ(trace->pods[1].device_count, 0);
}

TEST(OpenbTrace, WrongValuesAreNamed) {
  EXPECT_EQ(PodProblem("x,1,1,1000,"),
            "pods.csv:2: cpu_milli: \"x\" found, expected a whole number from 0 to 100000000");
  EXPECT_EQ(PodProblem("1,1,1,1001,"),
            "pods.csv:2: gpu_milli: \"1001\" found, expected a whole number from 1 to 1000");
  EXPECT_EQ(PodProblem("1,1,2,500,"),
            "pods.csv:2: gpu_milli: \"500\" found, expected a whole number from 1000 to 1000");
  EXPECT_EQ(PodProblem("1,1,0,,"),
            "pods.csv:2: num_gpu: \"0\" found, expected at least one pod with a GPU");
  EXPECT_EQ(TraceProblemOf("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,1,\nn0,1,1,1,\n", "a\n1\n"),
            "nodes.csv:3: sn: \"n0\" found, expected a name that no other node has");
}

TEST(ReplayOpenb, FillsTheClusterAndDropsTheRest) {
  const auto trace = ReadTrace(kNodes,
                               "cpu_milli,memory_mib,num_gpu,gpu_milli\n"
                               "1000,1024,1,1000\n1000,1024,1,1000\n");
  for (const auto& policy : {MakeWorthPolicy(), MakeFgdPolicy(), MakeBestFitPolicy()}) {
    const OpenbRun run = ReplayOpenb(*trace, 1, 2.0, policy.get());
    EXPECT_EQ(run.pod_count, 6);
    EXPECT_EQ(run.failed_count, 3);
    EXPECT_EQ(run.allocated_milli, 3000);
  }
}

TEST(ReplayOpenb, SeedDecidesTheOrder) {
  const auto trace = ReadTrace("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,8192,1,T4\n",
                               "cpu_milli,memory_mib,num_gpu,gpu_milli\n"
                               "1,1,1,700\n1,1,1,600\n1,1,1,500\n");
  std::set<int64_t> seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const int64_t once = ReplayOpenb(*trace, seed, 1, MakeWorthPolicy().get()).allocated_milli;
    EXPECT_EQ(ReplayOpenb(*trace, seed, 1, MakeWorthPolicy().get()).allocated_milli, once);
    seen.insert(once);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{500, 600, 700}));
}

// Cores bind where GPUs do not: what only looks whether one more pod fits learns it too late.
TEST(ReplayOpenb, CoresAreKeptForGpus) {
  std::string nodes = "sn,cpu_milli,memory_mib,gpu,model\n";
  for (int i = 0; i < 10; ++i) {
    nodes += "a" + std::to_string(i) + ",32000,999999,4,T4\n";  // just enough for its GPUs
    nodes += "b" + std::to_string(i) + ",96000,999999,4,T4\n";  // twice what they need
  }
  std::string pods = "cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  for (int i = 0; i < 80; ++i) {
    pods += "8000,1,1,1000\n";
    pods += i % 2 == 0 ? "12000,1,0,\n" : "";
  }
  const auto trace = ReadTrace(nodes, pods);
  constexpr int64_t kOrders = 10;
  int64_t ours = 0;
  int64_t fgd = 0;
  for (uint64_t seed = 1; seed <= kOrders; ++seed) {
    ours += ReplayOpenb(*trace, seed, 1, MakeWorthPolicy().get()).allocated_milli;
    fgd += ReplayOpenb(*trace, seed, 1, MakeFgdPolicy().get()).allocated_milli;
  }
  // Of 80 GPUs. What is missing was lost to pods that came before the first with a GPU.
  EXPECT_GE(ours / kOrders, 78'000);
  EXPECT_LE(fgd / kOrders, 72'000);
}

}  // namespace
}  // namespace lockstep::control
