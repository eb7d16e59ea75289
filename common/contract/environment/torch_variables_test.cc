#include "common/contract/environment/torch_variables.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::seconds;

EnvironmentMap WithTorchVariables(EnvironmentMap variables,
                                  std::optional<std::chrono::milliseconds> hung_after = {}) {
  SetTorchVariables(hung_after, &variables);
  return variables;
}

TEST(TorchVariables, RanksEndAtOnceAndRecordWhatTheyCall) {
  EXPECT_EQ(
      WithTorchVariables({}),
      (EnvironmentMap{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}, {"TORCH_FR_BUFFER_SIZE", "2000"}}));
}

TEST(TorchVariables, WhatTheUserSetsStaysUnderEitherName) {
  const EnvironmentMap own = {{"NCCL_ASYNC_ERROR_HANDLING", "1"},
                              {"TORCH_NCCL_TRACE_BUFFER_SIZE", "10"},
                              {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "700"}};
  EXPECT_EQ(WithTorchVariables(own, seconds(900)), own);
  const EnvironmentMap other = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                {"TORCH_FR_BUFFER_SIZE", "10"}};
  EXPECT_EQ(WithTorchVariables(other), other);
}

// torch's own monitor ends the process by SIGABRT, which names nobody.
TEST(TorchVariables, TorchsMonitorIsLaterThanTheCourt) {
  constexpr const char* kName = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";
  EXPECT_EQ(WithTorchVariables({}, seconds(60)).count(kName), 0U);  // it is anyway
  EXPECT_EQ(WithTorchVariables({}, seconds(900)).at(kName), "1020");
}

TEST(TorchVariables, ValuesThatWorkAgainstRecoveryAreNamed) {
  const auto told = [](const std::string& name, const std::string& value) {
    const auto all = ObjectionsToTorchVariables({{name, value}}, seconds(60));
    return all.empty() ? "" : all.front();
  };
  EXPECT_EQ(told("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"),
            "with TORCH_NCCL_ASYNC_ERROR_HANDLING=0, torch does not end a rank that waits for a "
            "lost rank; remove this variable");
  EXPECT_NE(told("NCCL_ASYNC_ERROR_HANDLING", "2").find("incomplete sums"), std::string::npos);
  EXPECT_NE(told("TORCH_NCCL_BLOCKING_WAIT", "True").find("timeout of the process group"),
            std::string::npos);
  EXPECT_NE(told("TORCH_FR_BUFFER_SIZE", "0").find("does not record"), std::string::npos);
  EXPECT_NE(told("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "60").find("hungAfterSeconds (60)"),
            std::string::npos);
}

TEST(TorchVariables, ValuesThatDoNotAreNotNamed) {
  EXPECT_TRUE(ObjectionsToTorchVariables({{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                          {"TORCH_NCCL_BLOCKING_WAIT", "0"},
                                          {"TORCH_FR_BUFFER_SIZE", "20000"},
                                          {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "61"}},
                                         seconds(60))
                  .empty());
  EXPECT_TRUE(ObjectionsToTorchVariables({{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "1"}}, {}).empty());
  EXPECT_TRUE(
      ObjectionsToTorchVariables({{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "soon"}}, seconds(60))
          .empty());
}

}  // namespace
}  // namespace lockstep
