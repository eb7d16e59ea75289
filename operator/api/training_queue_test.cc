#include "operator/api/training_queue.h"

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
      "weight": 3, "ordering": "FairShare"}, "status": {}})");

  ASSERT_TRUE(decoded.errors.empty()) << decoded.errors.front().ToString();
  const TrainingQueue expected{
      "vision",
      "research",
      {{"nvidia.com/gpu", 16}, {"cpu", 1500}, {"memory", int64_t{2} << 30}},
      {{"nvidia.com/gpu", 8}},
      {{"nvidia.com/gpu", 4}},
      3,
      QueueOrder::kFairShare};
  EXPECT_EQ(decoded.queue, expected);
}

TEST(TrainingQueue, WhatIsLeftOutIsFirstComeFirstServedWithoutLimits) {
  const DecodedQueue decoded = Decode(R"({"metadata": {"name": "all"}, "spec": {}})");

  EXPECT_TRUE(decoded.errors.empty());
  EXPECT_EQ(decoded.queue, (TrainingQueue{"all", "", {}, {}, {}, 1, QueueOrder::kFifo}));
}

TEST(TrainingQueue, MistakesAreNamedByTheirFields) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"nominal": {"cpu": "many"}})", "spec.nominal.cpu"},
      {R"({"lendingLimit": 3})", "spec.lendingLimit"},
      {R"({"weight": 0})", "spec.weight"},
      {R"({"ordering": "Random"})", "spec.ordering"},
      {R"({"preemption": {}})", "spec.preemption"},
  };
  for (const auto& [spec, field] : cases) {
    const DecodedQueue decoded =
        Decode(std::string(R"({"metadata": {"name": "q"}, "spec": )") + spec + "}");
    ASSERT_EQ(decoded.errors.size(), 1U) << spec;
    EXPECT_EQ(decoded.errors.front().field(), field);
  }
}

}  // namespace
}  // namespace lockstep::control
