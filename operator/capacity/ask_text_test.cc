#include "operator/capacity/ask_text.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/capacity/capacity_request.h"
#include "operator/reconcile/testing/fake_asking_world.h"

namespace lockstep::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kRequest = "mnist-uid-1-1";
constexpr const char* kRequestText =
    "ProvisioningRequest mnist-uid-1-1 (check-capacity.autoscaling.x-k8s.io)";

// What people hear of an ask: the condition and the events.
class AskText : public ::testing::Test, protected FakeAskingWorld {
 protected:
  AskText() { world_.observed.round = Unschedulable{Constraint::kGpu, "needs 8 GPUs, 0 free"}; }

  // A turn; the server takes nothing. "Reason: message" of the events about the ask.
  std::string Events() {
    std::string text;
    for (const Event& event : world_.Step().events) {
      if (event.reason.find("Capacity") != std::string::npos ||
          event.reason.find("Provisioning") != std::string::npos) {
        text += (text.empty() ? "" : "; ") + event.reason + ": " + event.message;
      }
    }
    return text;
  }

  // The open ask's request is there, with these conditions.
  void Answer(Json conditions) {
    const std::string name = CapacityRequestName(world_.job.metadata, ask().count);
    sight().requests = {{name,
                         "u-" + name,
                         ask().open->revision,
                         true,
                         false,
                         std::move(conditions),
                         "",
                         CapacityRequestManifest(world_.job)["spec"]}};
  }
};

TEST_F(AskText, AskIsToldOfWhenItsRequestIsThereAndOnce) {
  EXPECT_EQ(Events(), "") << "there is none yet";
  EXPECT_TRUE(
      Says("Lockstep is about to ask autoscalers for nodes by ProvisioningRequest mnist-uid-1-1"))
      << Why();
  Answer(Json());
  EXPECT_EQ(Events(),
            std::string("CapacityAsked: Lockstep asks autoscalers for nodes by ") + kRequestText);
  EXPECT_EQ(Events(), "");
  Answer(ConditionOf("Accepted", true, "Reason", "ok"));
  EXPECT_EQ(Events(), "");
}

// What is told last is how it was, and not that somebody is asked.
TEST_F(AskText, WaitThatIsOverSaysWhatHasBecomeOfTheAsk) {
  world_.job.spec.scheduling.timeout = minutes(1);
  Events();
  Answer(Json());
  Events();
  world_.Advance(minutes(1));
  EXPECT_EQ(Events(), "");
  EXPECT_EQ(
      MessageOf(world_.job.status, ConditionType::kFailed),
      std::string(
          "the gang was not placed within scheduling.timeoutSeconds: needs 8 GPUs, 0 free; ") +
          kRequestText + ": no autoscaler has answered");
  EXPECT_EQ(Why(), MessageOf(world_.job.status, ConditionType::kFailed));
  EXPECT_FALSE(ask().open.has_value());
}

TEST_F(AskText, WaitThatIsOverIsNoReasonToAskAnew) {
  world_.job.spec.scheduling.timeout = minutes(1);
  Events();
  Answer(ConditionOf("Failed", true, "Reason", "no quota in this region"));
  Events();
  ASSERT_FALSE(ask().open.has_value());
  world_.Advance(minutes(1));
  EXPECT_EQ(Events(), "");
  EXPECT_FALSE(ask().open.has_value());
  EXPECT_EQ(Why(),
            std::string("the gang was not placed within scheduling.timeoutSeconds: needs 8 GPUs, 0 "
                        "free; result of "
                        "the last request: ") +
                kRequestText + ": no quota in this region");
}

TEST_F(AskText, RequestThatIsRefusedIsAWarningAndNoAsk) {
  EXPECT_EQ(Events(), "");
  sight().refusals[kRequest] = "denied by policy no-nodes";
  EXPECT_EQ(Events(),
            "CapacityNotAsked: ProvisioningRequest mnist-uid-1-1 was refused: denied by policy "
            "no-nodes");
  EXPECT_EQ(Events(), "") << "once";
  world_.Advance(minutes(10));
  Events();
  EXPECT_TRUE(Says("was refused: denied by policy no-nodes")) << Why();
  EXPECT_FALSE(Says("no autoscaler accepted the request")) << Why();
}

TEST_F(AskText, KindThatIsRemovedWhileJobsWaitIsToldAsOneThatNeverWas) {
  Events();
  sight().refusals[kRequest] = kKindIsUnknown;
  EXPECT_EQ(Events(), std::string("ProvisioningNotFollowed: ") + kNotFollowed);
  EXPECT_TRUE(Says("provisioning.enabled of the chart")) << Why();
}

TEST_F(AskText, AnswerSaysWhetherItIsAYes) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {ConditionOf("Accepted", true, "Reason", "ok"), "an autoscaler has accepted the request: ok"},
      {ConditionOf("Accepted", false, "Reason", "ok"),
       "no autoscaler has accepted the request: ok"},
      {ConditionOf("Provisioned", true, "Reason", "ok"),
       "the autoscaler says that there is room: ok"},
      {ConditionOf("Provisioned", false, "Reason", "ok"),
       "the autoscaler has found no room yet: ok"},
  };
  Events();
  for (const auto& [condition, words] : cases) {
    Answer(condition);
    Events();
    EXPECT_TRUE(Says(std::string(kRequestText) + ": " + words)) << Why();
  }
}

TEST_F(AskText, LastFailureIsToldWhileTheNextAskGoesOnAndAtTheEnd) {
  world_.job.spec.scheduling.timeout = seconds(60);
  Events();
  Answer(ConditionOf("Failed", true, "Reason", "no quota for GPUs in this region"));
  Events();
  sight().requests.clear();
  world_.Advance(seconds(5));
  Events();
  Answer(Json());
  Events();
  EXPECT_TRUE(
      Says("mnist-uid-1-2 (check-capacity.autoscaling.x-k8s.io): no autoscaler has answered yet; "
           "result of the last request: "))
      << Why();
  EXPECT_TRUE(Says("no quota for GPUs in this region")) << Why();
  world_.Advance(seconds(60));
  Events();
  EXPECT_NE(
      MessageOf(world_.job.status, ConditionType::kFailed).find("no quota for GPUs in this region"),
      std::string::npos);
}

TEST_F(AskText, WhoIsHeldBackByItsQueueTakesItsAskBackAndSaysWhy) {
  Events();
  ASSERT_TRUE(ask().open.has_value());
  world_.observed.round =
      Unschedulable{Constraint::kGpu, "needs 8 GPUs, 0 free", {}, "others ask first"};
  EXPECT_EQ(Events(), "");
  EXPECT_FALSE(ask().open.has_value());
  EXPECT_TRUE(Says("needs 8 GPUs, 0 free; others ask first")) << Why();
  world_.Advance(minutes(1));
  Events();
  EXPECT_FALSE(ask().open.has_value());
  world_.observed.round = Unschedulable{Constraint::kGpu, "needs 8 GPUs, 0 free"};
  Events();
  EXPECT_TRUE(ask().open.has_value());
}

TEST_F(AskText, WhoWasToldOfRoomThatAnotherGetsIsToldThatToo) {
  Events();
  Answer(ConditionOf("Provisioned", true, "Reason", "ok"));
  Events();
  world_.observed.round = Unschedulable{Constraint::kQueue, "waits behind team/first"};
  EXPECT_EQ(Events(),
            std::string("CapacityNotProvisioned: ") + kRequestText +
                " found room, but Lockstep withdrew the request, because something else keeps the "
                "gang from starting: waits behind team/first");
}

TEST_F(AskText, WhoMustStandWithinOneDomainAsksForNothingFromTheStart) {
  world_.job.spec.scheduling.topology.required = "example.com/rack";
  EXPECT_EQ(Events(), "");
  EXPECT_FALSE(world_.job.status.provisioning.has_value());
  EXPECT_TRUE(
      Says("Lockstep asks no autoscaler for this job, because autoscalers ignore "
           "scheduling.topology.required and required pod affinity"))
      << Why();
}

TEST_F(AskText, AskOfBeforeTheDomainWasRequiredIsTakenBack) {
  Events();
  Answer(Json());
  world_.job.spec.scheduling.topology.required = "example.com/rack";
  ++world_.job.metadata.generation;
  Events();
  EXPECT_FALSE(ask().open.has_value());
}

TEST(CapacityPorts, PortsOfNodesAreAskedForToo) {
  TrainingJob job = AskingJob();
  RoleSpec& role = job.spec.roles[0];
  role.pod.requests.host_ports = {{2222, 1}, {8080, 1}};
  role.pod.raw = Json::object({{"spec", {{"hostNetwork", true}}}});
  job.status.provisioning =
      CapacityAsk{1, OpenAsk{ProvisioningClass::kAtomicScaleUp, "rev", {}, false}, 0, {}, ""};
  const Json spec = CapacityTemplateManifest(job, role, {})["template"]["spec"];
  EXPECT_EQ(spec["hostNetwork"], true);
  const Json& ports = spec["containers"][0]["ports"];
  ASSERT_EQ(ports.size(), 3U) << ports;
  EXPECT_EQ(ports[0]["hostPort"], 2222);
  EXPECT_EQ(ports[1]["hostPort"], 2223) << "the runtime's own, of a pod in its node's network";
  EXPECT_EQ(ports[2]["hostPort"], 8080);
  EXPECT_EQ(ports[2]["containerPort"], 8080) << "as the API server wants it beside hostNetwork";
}

}  // namespace
}  // namespace lockstep::control
