#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/capacity/ask_capacity.h"
#include "operator/reconcile/testing/fake_asking_world.h"

// Somebody edits what a gang asks autoscalers by, or puts something else in its place.
namespace lockstep::control {
namespace {

using std::chrono::minutes;

class AskDifference : public ::testing::Test, protected FakeAskingWorld {};

TEST_F(AskDifference, RequestThatIsNotWhatWasAskedIsNotTrustedAndIsAskedAnew) {
  const std::vector<std::pair<std::string, void (*)(CapacityObject*)>> edits = {
      {"spec.podSets[0].count is 1, expected 2",
       [](CapacityObject* one) { one->content["podSets"][0]["count"] = 1; }},
      {"spec.podSets has 2 elements, expected 1",
       [](CapacityObject* one) {
         const Json set = one->content["podSets"][0];
         one->content["podSets"].push_back(set);
       }},
      {"spec.podSets is missing, expected a list",
       [](CapacityObject* one) { one->content.erase("podSets"); }},
      {R"(spec.podSets[0].podTemplateRef.name is "mine", expected "mnist-uid-1-)",
       [](CapacityObject* one) { one->content["podSets"][0]["podTemplateRef"]["name"] = "mine"; }},
      {R"(spec.provisioningClassName is "mine", expected "check-capacity.)",
       [](CapacityObject* one) { one->content["provisioningClassName"] = "mine"; }},
      {R"(spec.parameters.noRetry is "false", expected "true")",
       [](CapacityObject* one) { one->content["parameters"]["noRetry"] = "false"; }},
      {"): was edited by somebody", [](CapacityObject* one) { one->generation = 2; }},
  };
  for (const auto& [words, edit] : edits) {
    Ask();
    const std::string asked = Objects();
    Answer(ConditionOf("Provisioned", true, "CapacityIsProvisioned", "Capacity is found"));
    edit(&sight().requests.at(0));
    const Decision decision = world_.Step();
    EXPECT_NE(EventReasons(decision).find("CapacityNotProvisioned"), std::string::npos) << words;
    EXPECT_TRUE(Says(words)) << Why();
    EXPECT_FALSE(ask().open.has_value()) << words;
    for (const WriteObject& write : WritesOf(decision)) {
      Carry(write);
    }
    EXPECT_EQ(Objects(), "") << words;
    world_.Advance(minutes(5));
    Ask();
    EXPECT_NE(Objects(), asked) << "an answer belongs to one name";
    world_.job.status.provisioning.reset();
    sight().requests.clear();
    sight().templates.clear();
  }
}

TEST_F(AskDifference, TemplateThatIsNotWhatWasAskedIsNotTrustedEither) {
  world_.job.spec.roles[0].pod.raw.Edit()["spec"]["nodeSelector"] = {{"pool", "a"}};
  const auto resources = [](CapacityObject* one) -> Json& {
    return one->content["spec"]["containers"][0]["resources"];
  };
  const std::vector<std::pair<std::string, std::function<void(CapacityObject*)>>> edits = {
      {R"(template.spec.containers[0].resources.requests.nvidia.com/gpu is "1", expected "4")",
       [&](CapacityObject* one) { resources(one)["requests"]["nvidia.com/gpu"] = "1"; }},
      {R"(template.spec.nodeSelector.pool is "b", expected "a")",
       [](CapacityObject* one) { one->content["spec"]["nodeSelector"]["pool"] = "b"; }},
      {"PodTemplate mnist-uid-1-1-worker was edited by somebody",
       [](CapacityObject* one) { one->generation = 2; }},
  };
  for (const auto& [words, edit] : edits) {
    for (const int turns : {1, 2}) {  // before its request is made, and after
      for (int turn = 0; turn < turns; ++turn) {
        Step();
      }
      ASSERT_EQ(sight().templates.size(), 1U);
      edit(&sight().templates[0]);
      Step();
      EXPECT_TRUE(Says(words)) << Why();
      EXPECT_EQ(Objects(), "") << words;
      world_.job.status.provisioning.reset();
    }
  }
}

// It has been rolled back, and pauses: nothing of the round is asked meanwhile.
TEST_F(AskDifference, GangThatPausesLooksAtWhatItAskedTheSame) {
  Ask();
  world_.job.status.retry_at = world_.now + minutes(3);
  sight().requests.at(0).generation = 2;
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_FALSE(ask().open.has_value());
}

// What an API server makes of what it is given is no edit.
TEST_F(AskDifference, WhatTheServerAddsOrWritesInItsOwnWayIsAsAsked) {
  world_.job.spec.roles[0].pod.requests.cpu_milli = 2000;
  world_.job.spec.roles[0].pod.requests.memory_bytes = 1'500'000'000;
  Ask();
  Json& spec = sight().templates[0].content["spec"];
  spec["dnsPolicy"] = "ClusterFirst";
  spec["containers"][0]["terminationMessagePath"] = "/dev/termination-log";
  spec["containers"][0]["resources"]["requests"]["cpu"] = "2";
  spec["containers"][0]["resources"]["requests"]["memory"] = "1500M";
  sight().templates[0].generation = 0;  // an old server does not count
  sight().requests[0].content["fromTheFuture"] = true;
  Answer(ConditionOf("Provisioned", true, "CapacityIsProvisioned", "Capacity is found"));
  EXPECT_EQ(Step(), "");
  EXPECT_TRUE(ask().open->has_capacity) << Why();
}

}  // namespace
}  // namespace lockstep::control
