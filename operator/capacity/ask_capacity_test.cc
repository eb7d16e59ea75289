#include "operator/capacity/ask_capacity.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/testing/capacity_case.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/pod_manifest.h"

namespace lockstep::control {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kFirstRequest = "mnist-uid-1-1";
constexpr const char* kSecond = "mnist-uid-1-2";

class AskCapacity : public CapacityCase {
 protected:
  AskCapacity() : CapacityCase(AskingJob()) {}
};

TEST_F(AskCapacity, GangWithoutRoomAsksForACheckFirstTheTemplatesThenTheRequest) {
  EXPECT_EQ(Step(), "create podtemplates/mnist-uid-1-1-worker");
  EXPECT_EQ(Step(), "create provisioningrequests/mnist-uid-1-1");
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(ask().open->ask_class, ProvisioningClass::kCheckCapacity);
  EXPECT_TRUE(
      Says("ProvisioningRequest mnist-uid-1-1 (check-capacity.autoscaling.x-k8s.io): no "
           "autoscaler has answered yet"))
      << Why();
  Answer(ConditionOf("Accepted", true, "Accepted", "is accepted"));
  Step();
  EXPECT_TRUE(Says(": is accepted")) << Why();
}

TEST_F(AskCapacity, JobWithoutTheFieldAsksNobody) {
  world_.job.spec.scheduling.provisioning = Provisioning::kNone;
  EXPECT_EQ(Step() + Step(), "");
  EXPECT_FALSE(world_.job.status.provisioning.has_value());
}

TEST_F(AskCapacity, CheckThatFindsNothingIsFollowedByAScaleUpForAll) {
  FindNothing();
  EXPECT_EQ(ask().open->ask_class, ProvisioningClass::kAtomicScaleUp);
  Step();
  EXPECT_EQ(Objects(), std::string(kSecond) + "-worker " + kSecond);
  EXPECT_TRUE(Says("best-effort-atomic-scale-up")) << Why();

  Answer(ConditionOf("Provisioned", false, "CapacityIsNotFound", "CA will try to find it later"));
  EXPECT_EQ(Step(), "") << "it goes on trying";
  EXPECT_TRUE(Says("CA will try to find it later")) << Why();
}

TEST_F(AskCapacity, CheckThatGoesOnLookingHasFoundNothingEither) {
  Ask();
  Answer(ConditionOf("Provisioned", false, "CapacityIsNotFound", "CA will try to find it later"));
  Step();
  EXPECT_EQ(ask().open->ask_class, ProvisioningClass::kAtomicScaleUp);
}

TEST_F(AskCapacity, PodsSayThatTheyUseWhatWasFoundAndTheRequestStaysUntilTheyRun) {
  FindNothing();
  Step();
  Answer(ConditionOf("Provisioned", true, "CapacityIsProvisioned", "Capacity is found"));
  const Decision decision = world_.Step();
  EXPECT_NE(EventReasons(decision).find("CapacityProvisioned"), std::string::npos);
  EXPECT_EQ(EventReasons(world_.Step()).find("CapacityProvisioned"), std::string::npos) << "once";
  world_.AddNode("new");
  EXPECT_EQ(Step(), "");
  ASSERT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
  const Json pod =
      PodManifest(world_.job, *world_.Find("mnist-worker-0"), world_.observed.settings);
  EXPECT_EQ(pod["metadata"]["annotations"][kConsumesRequest], kSecond);
  EXPECT_EQ(pod["metadata"]["annotations"][kConsumesClass],
            "best-effort-atomic-scale-up.autoscaling.x-k8s.io");
  EXPECT_EQ(Step(), "");

  world_.RunAll();
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_FALSE(ask().open.has_value());
  EXPECT_EQ(PodManifest(world_.job,
                        *world_.Find("mnist-worker-0"),
                        world_.observed.settings)["metadata"]["annotations"]
                .count(kConsumesRequest),
            0U);
}

TEST_F(AskCapacity, GangThatHasItsPlacesWithoutItTakesTheRequestBack) {
  Ask();
  world_.AddNode("freed");
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_NE(world_.Pods(), "");
}

TEST_F(AskCapacity, FailureIsToldAndAskedAboutAnewAfterAPauseThatGrows) {
  FindNothing();
  Step();
  Answer(ConditionOf("Failed", true, "Expired", "no quota for GPUs in this region"));
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_TRUE(Says("no quota for GPUs in this region")) << Why();
  EXPECT_TRUE(Says("Lockstep asks autoscalers for nodes again at ")) << Why();
  EXPECT_EQ(Step(), "") << "not yet";
  world_.Advance(seconds(5));
  Ask();
  EXPECT_EQ(Objects(), "mnist-uid-1-3-worker mnist-uid-1-3");
  EXPECT_EQ(ask().open->ask_class, ProvisioningClass::kCheckCapacity);

  Answer(ConditionOf("Failed", true, "FailedToCreatePods", "broken"));
  Step();
  world_.Advance(seconds(9));
  EXPECT_EQ(Step(), "");
  world_.Advance(seconds(1));
  EXPECT_NE(Step(), "");
}

TEST_F(AskCapacity, BookingThatIsOverIsAskedForAnew) {
  for (const char* const end : {"BookingExpired", "CapacityRevoked"}) {
    Ask();
    Answer(ConditionOf("Provisioned", true));
    Step();
    EXPECT_TRUE(ask().open->has_capacity);
    Answer(ConditionOf(end, true, end, "over"));
    Step();
    EXPECT_EQ(Objects(), "") << end;
    EXPECT_EQ(ask().failure.substr(ask().failure.size() - 4), "over");
    world_.Advance(minutes(5));
  }
}

TEST_F(AskCapacity, SilenceEndsTheAskToo) {
  Ask();
  world_.Advance(minutes(10));
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_TRUE(Says("no autoscaler accepted the request within 600 s")) << Why();
}

TEST_F(AskCapacity, AnswerToARequestThatSomebodyRemovesIsVoid) {
  Ask();
  Answer(ConditionOf("Provisioned", true, "CapacityIsProvisioned", "two nodes come"));
  Step();
  ASSERT_TRUE(ask().open->has_capacity);
  world_.Advance(minutes(20));
  sight().requests.clear();
  Step();
  EXPECT_FALSE(ask().open->has_capacity);
  world_.Advance(minutes(9));
  Step();
  EXPECT_NE(Objects(), "") << "it is made anew, and may be answered";
  world_.Advance(minutes(1));
  Step();
  EXPECT_TRUE(Says("no autoscaler accepted the request within 600 s")) << Why();
}

TEST_F(AskCapacity, AnswerThatBringsNoRoomIsAskedAboutAnew) {
  Ask();
  Answer(ConditionOf("Accepted", true, "Accepted", "is accepted"));
  Step();
  world_.Advance(minutes(29));
  Answer(ConditionOf("Provisioned", true, "CapacityIsProvisioned", "two nodes come"));
  Step();
  world_.Advance(minutes(29));
  EXPECT_EQ(Step(), "") << "that was another answer";
  world_.Advance(minutes(1));
  Step();
  EXPECT_EQ(Objects(), "");
  EXPECT_TRUE(Says("no room within 1800 s after the autoscaler's answer: two nodes come")) << Why();
  world_.Advance(seconds(5));
  Ask();
  EXPECT_EQ(ask().open->ask_class, ProvisioningClass::kCheckCapacity);
}

TEST_F(AskCapacity, WhoMayNotStartForAnotherReasonAsksForNothing) {
  for (const Constraint constraint : {Constraint::kQuota,
                                      Constraint::kQueue,
                                      Constraint::kPreemption,
                                      Constraint::kPriorityClass,
                                      Constraint::kNamespace}) {
    Ask();
    world_.observed.round = Unschedulable{constraint, "waits"};
    Step();
    EXPECT_EQ(Objects(), "") << static_cast<int>(constraint);
    EXPECT_EQ(Step(), "");
    world_.observed.round = Unschedulable{Constraint::kGpu, "needs 8 GPUs, 0 free"};
    EXPECT_EQ(Step(), "") << "turns may change with every round";
    world_.Advance(seconds(5));
  }
  Ask();
  world_.observed.round = AwaitsRound();
  EXPECT_EQ(Step(), "") << "a matter of moments";
}

TEST_F(AskCapacity, NothingIsLeftOverHoweverTheWaitEnds) {
  ExpectNothingLeftOver(WaitEnds());
}

TEST_F(AskCapacity, EditOfTheGangAsksAnewAndOfSomethingElseForgetsFailures) {
  Ask();
  world_.job.spec.roles[0].gpus = 8;
  ++world_.job.metadata.generation;
  Step();
  Step();
  EXPECT_EQ(Objects(), std::string(kSecond) + "-worker " + kSecond);
  Answer(ConditionOf("Failed", true, "FailedToCreatePods", "broken"));
  Step();
  EXPECT_EQ(Step(), "");
  world_.job.spec.run_policy.backoff_limit = 9;
  ++world_.job.metadata.generation;
  EXPECT_NE(Step(), "") << "the edit may be the cure";
}

TEST_F(AskCapacity, ObjectThatComesLateIsRemoved) {
  const std::vector<WriteObject> late = WritesOf(world_.Step());
  ASSERT_EQ(late.size(), 1U);
  world_.job.spec.run_policy.suspend = true;
  ++world_.job.metadata.generation;
  EXPECT_EQ(Step(), "");
  Carry(late[0]);
  EXPECT_EQ(Step(), "delete podtemplates/mnist-uid-1-1-worker");

  world_.job.spec.run_policy.suspend = false;
  Ask();
  EXPECT_EQ(Objects(), std::string(kSecond) + "-worker " + kSecond);
  Carry(late[0]);
  EXPECT_EQ(Step(), "delete podtemplates/mnist-uid-1-1-worker");
}

TEST_F(AskCapacity, NameThatSomebodyElseHasIsToldOfAndLeftAlone) {
  sight().templates.push_back(
      {std::string(kFirstRequest) + "-worker", "theirs", "", false, false, {}});
  EXPECT_EQ(Step() + Step(), "");
  EXPECT_TRUE(Says("PodTemplate mnist-uid-1-1-worker does not belong to this job")) << Why();

  sight().templates.clear();
  Step();
  sight().requests.push_back(
      {kFirstRequest, "theirs", "", false, false, ConditionOf("Failed", true)});
  EXPECT_EQ(Step(), "");
  EXPECT_TRUE(Says("ProvisioningRequest mnist-uid-1-1 does not belong to this job")) << Why();
  world_.job.spec.run_policy.suspend = true;
  Step();
  EXPECT_EQ(Objects(), kFirstRequest) << "theirs stays";
}

TEST_F(AskCapacity, RefusalIsToldInTheServersWords) {
  sight().refusals[std::string(kFirstRequest) + "-worker"] = "podtemplates is forbidden";
  world_.Step();
  EXPECT_TRUE(Says("was refused: podtemplates is forbidden")) << Why();
  Step();
  sight().refusals[kFirstRequest] = "exceeded quota";
  world_.Step();
  EXPECT_TRUE(Says("ProvisioningRequest mnist-uid-1-1 was refused: exceeded quota")) << Why();
}

TEST_F(AskCapacity, WithoutTheKindTheFieldIsAnsweredWithWhatIsMissing) {
  sight().is_followed = false;
  const Decision first = world_.Step();
  EXPECT_TRUE(WritesOf(first).empty());
  EXPECT_NE(EventReasons(first).find("ProvisioningNotFollowed"), std::string::npos);
  EXPECT_TRUE(Says("--provisioning")) << Why();
  EXPECT_EQ(EventReasons(world_.Step()).find("ProvisioningNotFollowed"), std::string::npos);
  sight().is_followed = true;
  EXPECT_NE(Step(), "");
}

// "asks check", "room check": what a turn counts of asks, its classes cut at their first dash.
std::string CountedIn(const Decision& decision) {
  std::string text;
  for (const MetricDelta& delta : decision.metrics) {
    const bool is_ask = delta.metric == Metric::kCapacityAsks;
    if (is_ask || delta.metric == Metric::kCapacityAnswers) {
      EXPECT_EQ(delta.queue, "vision");
      text += (text.empty() ? "" : ", ") + (is_ask ? "asks" : delta.label) + " " +
              delta.ask_class.substr(0, delta.ask_class.find('-'));
    }
  }
  return text;
}

TEST_F(AskCapacity, AsksAndWhatBecomesOfThemAreCountedByQueueAndClass) {
  world_.job.spec.scheduling.queue = "vision";
  const auto counted = [&] {
    const Decision decision = world_.Step();
    for (const WriteObject& write : WritesOf(decision)) {
      Carry(write);
    }
    return CountedIn(decision);
  };
  const auto begin_anew = [&] {
    sight().requests.clear();
    sight().templates.clear();
    world_.Advance(minutes(5));
    EXPECT_EQ(counted(), "asks check");
    Step();
  };
  EXPECT_EQ(counted(), "asks check");
  EXPECT_EQ(counted(), "");
  Answer(ConditionOf("Failed", true, "CapacityIsNotFound", "no"));
  EXPECT_EQ(counted(), "no_room check, asks best");
  Step();
  Step();
  Answer(ConditionOf("Provisioned", true));
  EXPECT_EQ(counted(), "room best");
  EXPECT_EQ(counted(), "") << "once";
  Answer(ConditionOf("CapacityRevoked", true));
  EXPECT_EQ(counted(), "revoked best");

  begin_anew();
  Answer(ConditionOf("Failed", true));
  EXPECT_EQ(counted(), "failed check");
  begin_anew();
  world_.Advance(minutes(10));
  EXPECT_EQ(counted(), "no_answer check");
  begin_anew();
  Answer(ConditionOf("Accepted", true));
  EXPECT_EQ(counted(), "");
  world_.Advance(minutes(30));
  EXPECT_EQ(counted(), "no_nodes check");
  begin_anew();
  sight().requests.at(0).generation = 2;
  EXPECT_EQ(counted(), "edited check");
  begin_anew();
  world_.observed.round = Unschedulable{Constraint::kQuota, "waits"};
  EXPECT_EQ(counted(), "taken_back check");
  world_.observed.round = Unschedulable{Constraint::kGpu, "needs 8 GPUs, 0 free"};
  sight().refusals["mnist-uid-1-8"] = "exceeded quota";
  world_.Advance(minutes(5));
  Step();
  Step();
  sight().requests.clear();
  world_.Advance(minutes(10));
  EXPECT_EQ(counted(), "not_made check");
}

TEST_F(AskCapacity, NothingIsLeftOverAfterAnyStory) {
  ExpectNothingLeftOverAfterStories(AskingJob(), [&](Prng& prng) {
    if (!sight().requests.empty()) {
      Answer(prng.Below(2) == 0 ? ConditionOf("Failed", true, "CapacityIsNotFound", "no")
                                : ConditionOf("Provisioned", true));
    }
  });
}

TEST(CapacityManifests, AskForWhatThePodsAskForAndHoldNothingElseOfTheTemplate) {
  TrainingJob job = AskingJob();
  AddRole(Role::kPs, 0, &job);
  job.spec.roles[0].pod.requests.cpu_milli = 1500;
  job.spec.roles[0].pod.raw = Json::object(
      {{"metadata", {{"labels", {{"team", "vision"}}}}},
       {"spec",
        {{"nodeSelector", {{"pool", "a"}}},
         {"affinity", {{"podAntiAffinity", {{"some", "rule"}}}}},
         {"containers",
          Json::array({{{"name", "trainer"},
                        {"env", Json::array({{{"name", "TOKEN"}, {"value", "secret"}}})}}})}}}});
  job.status.provisioning =
      CapacityAsk{7, OpenAsk{ProvisioningClass::kAtomicScaleUp, "rev", {}, false}, 0, {}, ""};

  const Json request = CapacityRequestManifest(job);
  EXPECT_EQ(request["metadata"]["name"], "mnist-uid-1-7");
  EXPECT_EQ(request["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  EXPECT_EQ(request["metadata"]["annotations"][kCapacityRevision], "rev");
  ASSERT_EQ(request["spec"]["podSets"].size(), 1U) << "a role without pods is none";
  EXPECT_EQ(request["spec"]["podSets"][0]["count"], 2);
  EXPECT_EQ(request["spec"]["podSets"][0]["podTemplateRef"]["name"], "mnist-uid-1-7-worker");
  EXPECT_EQ(request["spec"]["provisioningClassName"],
            "best-effort-atomic-scale-up.autoscaling.x-k8s.io");
  EXPECT_EQ(request["spec"].count("parameters"), 0U);
  job.status.provisioning->open->ask_class = ProvisioningClass::kCheckCapacity;
  EXPECT_EQ(CapacityRequestManifest(job)["spec"]["parameters"]["noRetry"], "true");

  const Json pods = CapacityTemplateManifest(job, job.spec.roles[0], {});
  EXPECT_EQ(pods["metadata"]["name"], "mnist-uid-1-7-worker");
  EXPECT_EQ(pods["template"]["metadata"]["labels"]["team"], "vision");
  const Json& spec = pods["template"]["spec"];
  EXPECT_EQ(spec["nodeSelector"]["pool"], "a");
  EXPECT_EQ(spec["affinity"]["podAntiAffinity"]["some"], "rule");
  EXPECT_EQ(spec["containers"][0]["image"], "example/train:1");
  EXPECT_EQ(spec["containers"][0]["resources"]["requests"]["cpu"], "1500m");
  EXPECT_EQ(spec["containers"][0]["resources"]["limits"], Json({{"nvidia.com/gpu", "4"}}));
  EXPECT_EQ(DumpJson(pods).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
