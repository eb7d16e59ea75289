#include "operator/api/queue/training_queue.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

DecodedQueue Decode(const std::string& json) {
  return DecodeTrainingQueue(ParseJson(json).value());
}

TEST(TrainingQueue, AmountsAreInTheUnitsOfResources) {
  const DecodedQueue decoded = Decode(R"({"metadata": {"name": "vision", "uid": "u"}, "spec": {
      "parent": "research", "nominal": {"nvidia.com/gpu": 16, "cpu": "1500m", "memory": "2Gi"},
      "borrowingLimit": {"nvidia.com/gpu": "8"}, "lendingLimit": {"nvidia.com/gpu": 4},
      "weight": 3, "ordering": "FairShare", "minRuntimeSeconds": 600,
      "maxRuntimeSeconds": 7200,
      "preemption": {"withinQueue": "LowerPriority", "acrossQueues": "Borrowed"}},
      "status": {}})");

  ASSERT_TRUE(decoded.errors.empty()) << decoded.errors.front().ToString();
  const TrainingQueue expected{
      "vision",
      "research",
      {{"nvidia.com/gpu", 16}, {"cpu", 1500}, {"memory", int64_t{2} << 30}},
      {{"nvidia.com/gpu", 8}},
      {{"nvidia.com/gpu", 4}},
      3,
      QueueOrder::kFairShare,
      true,
      true,
      std::chrono::minutes(10),
      {},
      std::chrono::hours(2)};
  EXPECT_EQ(decoded.queue, expected);
}

TEST(TrainingQueue, WhatIsLeftOutIsFirstComeFirstServedWithoutLimits) {
  const DecodedQueue decoded = Decode(R"({"metadata": {"name": "all"}, "spec": {}})");

  EXPECT_TRUE(decoded.errors.empty());
  EXPECT_EQ(decoded.queue,
            (TrainingQueue{"all", "", {}, {}, {}, 1, QueueOrder::kFifo, false, false, {}}));
}

// kubectl sends 1e3 as 1000, and a file has it as it was written.
TEST(TrainingQueue, WholeNumbersMayBeWrittenWithAnExponent) {
  const DecodedQueue decoded = Decode(
      R"({"metadata": {"name": "q"}, "spec": {"nominal": {"nvidia.com/gpu": 1e3, "cpu": "2e1"}}})");
  ASSERT_TRUE(decoded.errors.empty()) << decoded.errors.front().ToString();
  EXPECT_EQ(decoded.queue.nominal.at("nvidia.com/gpu"), 1000);
  EXPECT_EQ(decoded.queue.nominal.at("cpu"), 20'000);
  EXPECT_FALSE(
      Decode(R"({"metadata": {"name": "q"}, "spec": {"nominal": {"nvidia.com/gpu": 1.5}}})")
          .errors.empty());
}

// A limit of what no container can ask for would limit nothing, and nobody would hear of it.
TEST(TrainingQueue, OnlyWhatContainersCanAskForIsLimited) {
  const auto problem = [](const std::string& name) {
    const DecodedQueue decoded = DecodeTrainingQueue({{"spec", {{"nominal", {{name, 1}}}}}});
    return decoded.errors.empty() ? "" : decoded.errors.front().ToString();
  };
  for (const std::string& name : {std::string("cpu"),
                                  std::string("memory"),
                                  std::string("ephemeral-storage"),
                                  std::string("hugepages-2Mi"),
                                  std::string("hugepages-64Ki"),
                                  std::string("hugepages-1Gi"),
                                  std::string("nvidia.com/gpu"),
                                  std::string("nvidia.com/mig-1g.5gb"),
                                  std::string("rdma/hca"),
                                  std::string("kubernetes.io/batch-cpu"),
                                  std::string(244, 'a') + "/gpu"}) {
    EXPECT_EQ(problem(name), "");
  }
  for (const std::string& name : {std::string("gpu"),
                                  std::string("pods"),
                                  std::string("storage"),
                                  std::string("requests.cpu"),
                                  std::string("limits.memory"),
                                  std::string("my_pages.v2"),
                                  std::string("my gpu"),
                                  std::string("hugepages-"),
                                  std::string("hugepages-2MB"),
                                  std::string("hugepages-02Mi"),
                                  std::string("hugepages-10000Mi"),
                                  std::string("/gpu"),
                                  std::string("nvidia.com/"),
                                  std::string("NVIDIA.com/gpu"),
                                  std::string("a/b/c"),
                                  std::string(245, 'a') + "/gpu"}) {
    EXPECT_THAT(problem(name),
                ::testing::AllOf(::testing::StartsWith("spec.nominal." + name + ": \""),
                                 ::testing::HasSubstr("domain such as nvidia.com/gpu")));
  }
  EXPECT_EQ(
      problem(""),
      "spec.nominal: \"\" found, expected a resource that containers can request: cpu, memory, "
      "ephemeral-storage, hugepages-2Mi, or a name with a domain such as nvidia.com/gpu");
  EXPECT_EQ(problem("requests.nvidia.com/gpu"),
            "spec.nominal.requests.nvidia.com/gpu: \"requests.nvidia.com/gpu\" found, expected a "
            "resource that containers can request: cpu, memory, ephemeral-storage, hugepages-2Mi, "
            "or a name with a domain such as nvidia.com/gpu; did you mean \"nvidia.com/gpu\"?");
}

TEST(TrainingQueue, OfANameThatIsNoneTheAmountDoesNotMatter) {
  EXPECT_EQ(Decode(R"({"spec": {"nominal": {"": 1, "my gpu": "x"}}})").errors.size(), 2U);
}

TEST(TrainingQueue, NoMoreResourcesAreLimitedThanTheServerTakes) {
  Json amounts = Json::object();
  for (int i = 0; i < 32; ++i) {
    amounts["example.com/r" + std::to_string(i)] = 1;
  }
  EXPECT_TRUE(DecodeTrainingQueue({{"spec", {{"nominal", amounts}}}}).errors.empty());
  amounts["cpu"] = 1;
  const DecodedQueue decoded = DecodeTrainingQueue({{"spec", {{"nominal", amounts}}}});
  ASSERT_EQ(decoded.errors.size(), 1U);
  EXPECT_EQ(decoded.errors.front().ToString(),
            "spec.nominal: 33 entries found, expected at most 32");
}

TEST(TrainingQueue, ParentIsANameThatAQueueMayHave) {
  for (const std::string& name : {std::string(), std::string("research"), std::string(63, 'a')}) {
    EXPECT_TRUE(DecodeTrainingQueue({{"spec", {{"parent", name}}}}).errors.empty()) << name;
  }
  for (const std::string& name :
       {std::string(64, 'a'), std::string("9th"), std::string("a.b"), std::string("a-")}) {
    const DecodedQueue decoded = DecodeTrainingQueue({{"spec", {{"parent", name}}}});
    ASSERT_EQ(decoded.errors.size(), 1U) << name;
    EXPECT_THAT(decoded.errors.front().ToString(),
                ::testing::AllOf(::testing::StartsWith("spec.parent: \"" + name.substr(0, 40)),
                                 ::testing::HasSubstr("found, expected the name of a queue, a DNS "
                                                      "label: lower-case letters")));
  }
}

TEST(TrainingQueue, AmountsThatAreTooLongAreRefusedWithTheLimit) {
  const std::pair<const char*, const char*> cases[] = {
      {"9Ei", "a quantity below 8Ei"},
      {"9223372036854775807", "a quantity below 8Ei"},
      {"1e-007", "a quantity with an exponent from -99 to 99"},
      {"1.000000000000000000000000000000000000000000000000000000000000000",
       "a quantity of at most 64 characters"},
  };
  for (const auto& [text, expected] : cases) {
    const DecodedQueue decoded = DecodeTrainingQueue({{"spec", {{"nominal", {{"memory", text}}}}}});
    ASSERT_EQ(decoded.errors.size(), 1U) << text;
    EXPECT_THAT(decoded.errors.front().message(),
                ::testing::EndsWith(std::string(" found, expected ") + expected));
  }
}

TEST(TrainingQueue, AmountsHaveAsManyDigitsAsKubernetesTakes) {
  const Json nominal = {{"memory", "9223372036854775806"},
                        {"ephemeral-storage", "1234567890.123456789"},
                        {"cpu", 9223372036854775806},
                        {"nvidia.com/gpu", 1000000000000000000}};
  const DecodedQueue decoded = DecodeTrainingQueue({{"spec", {{"nominal", nominal}}}});
  ASSERT_TRUE(decoded.errors.empty()) << decoded.errors.front().ToString();
  const int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(decoded.queue.nominal,
            (QueueAmounts{{"memory", largest - 1},
                          {"ephemeral-storage", 1'234'567'891},
                          {"cpu", largest},  // more thousandths than can be counted
                          {"nvidia.com/gpu", 1'000'000'000'000'000'000}}));
}

TEST(TrainingQueue, ItIsForTheNamespacesThatItNames) {
  const DecodedQueue decoded =
      Decode(R"({"metadata": {"name": "q"}, "spec": {"namespaces": ["team-b", "2nd"]}})");
  ASSERT_TRUE(decoded.errors.empty()) << decoded.errors.front().ToString();
  EXPECT_EQ(decoded.queue.namespaces, (std::set<std::string>{"2nd", "team-b"}));
  EXPECT_TRUE(Decode(R"({"metadata": {"name": "q"}, "spec": {"namespaces": []}})").errors.empty());
}

TEST(TrainingQueue, ItsJobsMayComeByPriority) {
  EXPECT_EQ(Decode(R"({"metadata": {"name": "q"}, "spec": {"ordering": "Priority"}})").queue.order,
            QueueOrder::kPriority);
}

TEST(TrainingQueue, MistakesAreNamedByTheirFields) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"nominal": {"cpu": "many"}})", "spec.nominal.cpu"},
      {R"({"lendingLimit": 3})", "spec.lendingLimit"},
      {R"({"nominal": {"nvidia.com/gpu": "1500m"}})", "spec.nominal.nvidia.com/gpu"},
      {R"({"borrowingLimit": {"rdma/hca": "0.5"}})", "spec.borrowingLimit.rdma/hca"},
      {R"({"lendingLimit": {"amd.com/gpu": "1500e-3"}})", "spec.lendingLimit.amd.com/gpu"},
      {R"({"nominal": {"": 2, "cpu": 1}})", "spec.nominal"},
      {R"({"weight": 0})", "spec.weight"},
      {R"({"ordering": "Random"})", "spec.ordering"},
      {R"({"preemption": {"withinQueue": "Always"}})", "spec.preemption.withinQueue"},
      {R"({"preemption": {"acrossQueues": true}})", "spec.preemption.acrossQueues"},
      {R"({"preemption": {"everywhere": true}})", "spec.preemption.everywhere"},
      {R"({"minRuntimeSeconds": -1})", "spec.minRuntimeSeconds"},
      {R"({"maxRuntimeSeconds": 0})", "spec.maxRuntimeSeconds"},
      {R"({"maxRuntimeSeconds": 315360001})", "spec.maxRuntimeSeconds"},
      {R"({"maxRuntimeSeconds": "1h"})", "spec.maxRuntimeSeconds"},
      {R"({"minRuntimeSeconds": 61, "maxRuntimeSeconds": 60})", "spec.maxRuntimeSeconds"},
      {R"({"namespaces": "team"})", "spec.namespaces"},
      {R"({"namespaces": ["team", 3]})", "spec.namespaces[1]"},
      {R"({"namespaces": ["team", "Team"]})", "spec.namespaces[1]"},
      {R"({"namespaces": ["-team"]})", "spec.namespaces[0]"},
      {R"({"namespaces": ["team", "team"]})", "spec.namespaces[1]"},
  };
  for (const auto& [spec, field] : cases) {
    const DecodedQueue decoded =
        Decode(std::string(R"({"metadata": {"name": "q"}, "spec": )") + spec + "}");
    ASSERT_EQ(decoded.errors.size(), 1U) << spec;
    EXPECT_EQ(decoded.errors.front().field(), field);
  }
}

TEST(TrainingQueue, NoJobIsStoppedBeforeItMayGoForAnother) {
  const DecodedQueue decoded = Decode(
      R"({"metadata": {"name": "q"}, "spec": {"minRuntimeSeconds": 61, "maxRuntimeSeconds": 60}})");
  ASSERT_EQ(decoded.errors.size(), 1U);
  EXPECT_EQ(decoded.errors.front().ToString(),
            "spec.maxRuntimeSeconds: 60 found, expected at least 61, the queue's "
            "minRuntimeSeconds");
  EXPECT_TRUE(
      Decode(R"({"spec": {"minRuntimeSeconds": 60, "maxRuntimeSeconds": 60}})").errors.empty());
}

TEST(TrainingQueue, AmountWithoutItsResourceIsRefusedWithWhatWasFound) {
  const DecodedQueue decoded = Decode(R"({"metadata": {"name": "q"}, "spec": {"nominal": 16}})");
  ASSERT_EQ(decoded.errors.size(), 1U);
  EXPECT_EQ(decoded.errors.front().ToString(),
            "spec.nominal: 16 found, expected amounts by resource, such as {nvidia.com/gpu: 16}");
}

TEST(TrainingQueue, PartsOfDevicesAreRefusedWithWhatWasExpected) {
  const DecodedQueue decoded = Decode(R"({"metadata": {"name": "q"}, "spec": {"nominal": {
      "nvidia.com/gpu": "1500m", "cpu": "1500m", "memory": "1.5Gi", "rdma/hca": "2k"}}})");

  ASSERT_EQ(decoded.errors.size(), 1U);
  EXPECT_EQ(decoded.errors.front().ToString(),
            "spec.nominal.nvidia.com/gpu: \"1500m\" found, expected a whole number, such as 2: a "
            "device cannot be divided");
  EXPECT_EQ(decoded.queue.nominal.at("rdma/hca"), 2000);
}

TEST(TrainingQueue, StatusTellsAmountsInTheirUnitsAndSinceWhenItIsServed) {
  const QueueStatus status{true,
                           "Served",
                           "its jobs are served",
                           {{"nvidia.com/gpu", 4}},
                           {{"cpu", 1500}, {"nvidia.com/gpu", 6}},
                           {{"nvidia.com/gpu", 2}},
                           {{"memory", int64_t{64} << 30}},
                           3};
  const WallTime first{std::chrono::seconds(1'800'000'000)};
  const Json written = EncodeQueueStatus(status, Json(), first);
  EXPECT_EQ(written["used"], (Json{{"cpu", "1500m"}, {"nvidia.com/gpu", "6"}}));
  EXPECT_EQ(written["borrowed"], (Json{{"nvidia.com/gpu", "2"}}));
  EXPECT_EQ(written["claimed"], (Json{{"memory", "64Gi"}}));
  EXPECT_EQ(written["waiting"], 3);
  EXPECT_EQ(written["conditions"][0]["status"], "True");

  const WallTime later = first + std::chrono::seconds(60);
  EXPECT_EQ(EncodeQueueStatus(status, written, later), written);
  QueueStatus lost = status;
  lost.is_ready = false;
  EXPECT_NE(EncodeQueueStatus(lost, written, later)["conditions"][0]["lastTransitionTime"],
            written["conditions"][0]["lastTransitionTime"]);
}

}  // namespace
}  // namespace lockstep::control
