#include "trainer-runtime/supervisor/process_plan.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

const std::vector<std::string> kTorchrun = {"torchrun", "train.py"};

WorkerEnvironment OfWorker0(int workers) {
  const JobTopology topology{"m", "n", {{Role::kWorker, workers, 1}}, DnsAddressing{}};
  return MakeWorkerEnvironment(topology, {{Role::kWorker, 0}, {}, Epoch(0), "uid"}).value();
}

// A lone program that was told of a cluster by its image would wait for peers that nobody starts.
TEST(ProcessPlan, TfConfigThatTheJobDoesNotGiveIsLeftOut) {
  const std::string foreign =
      R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})";
  const EnvironmentMap inherited = {{env::kTfConfig, foreign}, {"COLOR", "blue"}};

  const auto lone = PlanProcesses(OfWorker0(1), inherited, {}, /*with_prefix=*/false);
  ASSERT_TRUE(lone.ok());
  EXPECT_EQ(lone->front().environment.count(env::kTfConfig), 0U);
  EXPECT_EQ(lone->front().environment.at("COLOR"), "blue");

  const auto pair = PlanProcesses(OfWorker0(2), inherited, {}, /*with_prefix=*/false);
  ASSERT_TRUE(pair.ok());
  EXPECT_NE(pair->front().environment.at(env::kTfConfig), foreign);
}

// The environment of pod 1 of three that hold two ranks each.
WorkerEnvironment OfPairOfRanks() {
  const JobTopology topology{"m", "n", {{Role::kWorker, 3, 2}}, DnsAddressing{"cluster.local"}};
  return MakeWorkerEnvironment(topology, {{Role::kWorker, 1}, {Attempt(4), {}}, Epoch(0), "uid"})
      .value();
}

TEST(ProcessPlan, TorchrunIsStartedOnceAndToldOfThePodsOfTheJob) {
  const auto plan = PlanProcesses(OfPairOfRanks(), {}, kTorchrun, /*with_prefix=*/true).value();

  ASSERT_EQ(plan.size(), 1U);
  EXPECT_EQ(plan.front().prefix, "[worker-1] ");
  EXPECT_EQ(plan.front().rank, std::nullopt);
  EnvironmentMap told;
  for (const auto& [name, value] : plan.front().environment) {
    if (name.rfind("PET_", 0) == 0) {
      told[name] = value;
    }
  }
  EXPECT_EQ(told,
            (EnvironmentMap{{"PET_NNODES", "3"},
                            {"PET_NPROC_PER_NODE", "2"},
                            {"PET_NODE_RANK", "1"},
                            {"PET_MASTER_ADDR", "m-worker-0.m.n.svc.cluster.local"},
                            {"PET_MASTER_PORT", "29500"},
                            {"PET_RDZV_ID", "uid-4"},
                            {"PET_MONITOR_INTERVAL", "0.1"}}));
  EXPECT_EQ(plan.front().environment.at("WORLD_SIZE"), "6");
}

TEST(ProcessPlan, WhatTheTemplateTellsTorchrunStays) {
  const auto plan = PlanProcesses(OfPairOfRanks(),
                                  {{"PET_NPROC_PER_NODE", "auto"}},
                                  kTorchrun,
                                  /*with_prefix=*/true)
                        .value();
  EXPECT_EQ(plan.front().environment.at("PET_NPROC_PER_NODE"), "auto");
}

TEST(ProcessPlan, TorchrunIsStartedOnceWhereTheCommandStartsItOrTheJobSaysSo) {
  WorkerEnvironment pod = OfPairOfRanks();
  const std::vector<std::string> script = {"./train.sh"};
  EXPECT_EQ(PlanProcesses(pod, {}, script, /*with_prefix=*/true)->size(), 2U);
  EXPECT_EQ(PlanProcesses(pod, {}, kTorchrun, /*with_prefix=*/true)->size(), 1U);
  pod.launcher = ProcessLauncher::kTorchrun;
  EXPECT_EQ(PlanProcesses(pod, {}, script, /*with_prefix=*/true)->size(), 1U);
  pod.launcher = ProcessLauncher::kLockstep;
  EXPECT_EQ(PlanProcesses(pod, {}, kTorchrun, /*with_prefix=*/true)->size(), 2U);
}

// It would wait for pods that it never meets.
TEST(ProcessPlan, TorchrunThatTrainsAloneIsNotToldOfThePodsOfTheJob) {
  const auto told = [](const EnvironmentMap& inherited, const std::vector<std::string>& command) {
    return PlanProcesses(OfPairOfRanks(), inherited, command, /*with_prefix=*/true)
        ->front()
        .environment.at("PET_NNODES");
  };
  EXPECT_EQ(told({}, {"torchrun", "--standalone", "t.py"}), "1");
  EXPECT_EQ(told({}, {"sh", "-c", "cd /w; torchrun --standalone t.py"}), "1");
  EXPECT_EQ(told({}, {"torchrun", "t.py", "--standalone"}), "3");
  EXPECT_EQ(told({}, {"sh", "-c", "torchrun --standalone a.py; torchrun b.py"}), "3");
  EXPECT_EQ(told({{"PET_NNODES", "2"}}, {"torchrun", "--standalone", "t.py"}), "2");
}

// Several torchruns of one pod would all take themselves for the same node.
TEST(ProcessPlan, OnlyTheLoneProcessOfAPodIsToldWhatTorchrunGoesBy) {
  const auto pair = PlanProcesses(OfPairOfRanks(), {}, {}, /*with_prefix=*/true).value();
  ASSERT_EQ(pair.size(), 2U);
  EXPECT_EQ(pair.front().environment.count("PET_NNODES"), 0U);

  const auto lone = PlanProcesses(OfWorker0(2), {}, {}, /*with_prefix=*/true).value();
  EXPECT_EQ(lone.front().environment.at("PET_NNODES"), "2");
  EXPECT_EQ(lone.front().rank, 0);

  WorkerEnvironment without = OfWorker0(2);
  without.launcher = ProcessLauncher::kLockstep;
  const auto declined = PlanProcesses(without, {}, {}, /*with_prefix=*/true).value();
  EXPECT_EQ(declined.front().environment.count("PET_NNODES"), 0U);
}

// A ps and an evaluator have no groups.
TEST(ProcessPlan, RanksGetVariablesOfTorchThatHelpRecovery) {
  const EnvironmentMap own = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
  const auto plan = PlanProcesses(OfWorker0(2), own, {}, /*with_prefix=*/false).value();
  EXPECT_EQ(plan.front().environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "1");
  EXPECT_EQ(plan.front().environment.at("TORCH_FR_BUFFER_SIZE"), "2000");

  WorkerEnvironment evaluator = OfWorker0(2);
  evaluator.rank.reset();
  const auto other = PlanProcesses(evaluator, {}, {}, /*with_prefix=*/false);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->front().environment.count("TORCH_FR_BUFFER_SIZE"), 0U);
}

}  // namespace
}  // namespace lockstep::runtime
