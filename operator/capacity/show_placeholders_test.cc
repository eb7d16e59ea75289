#include "operator/capacity/show_placeholders.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/api/job/kueue_admission.h"
#include "operator/capacity/capacity_request.h"
#include "operator/capacity/placeholder_pod.h"
#include "operator/capacity/testing/capacity_case.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TrainingJob ShowingJob(int workers = 2) {
  TrainingJob job = MakeCommandJob(workers);
  job.spec.roles[0].gpus = 4;
  job.spec.scheduling.provisioning = Provisioning::kPods;
  return job;
}

class ShowPlaceholdersTest : public CapacityCase {
 protected:
  ShowPlaceholdersTest() : CapacityCase(ShowingJob()) {}

  std::vector<CapacityObject>& pods() { return sight().placeholders; }

  // Turns until autoscalers see all of them.
  void Show() {
    Step();
    Step();
    ASSERT_EQ(pods().size(), 2U);
    ASSERT_TRUE(IsShown(pods()[1].conditions));
  }
};

TEST_F(ShowPlaceholdersTest, GangWithoutRoomHasOneForEachPodAndMarksItForAutoscalers) {
  EXPECT_EQ(Step(),
            "create pods/mnist-uid-1-1-worker-0-placeholder, "
            "create pods/mnist-uid-1-1-worker-1-placeholder");
  EXPECT_EQ(Step(),
            "patch pods/mnist-uid-1-1-worker-0-placeholder, "
            "patch pods/mnist-uid-1-1-worker-1-placeholder");
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(pods()[0].conditions[0]["status"], "False");
  EXPECT_EQ(pods()[0].conditions[0]["reason"], "Unschedulable");
  EXPECT_TRUE(
      Says("2 placeholder pods (label lockstep.dev/placeholder-of=mnist) show cluster autoscalers "
           "what the gang needs"))
      << Why();
  EXPECT_EQ(ask().open->ask_class, ProvisioningClass::kPlaceholderPods);
  world_.Advance(std::chrono::hours(3));
  EXPECT_EQ(Step(), "") << "nobody has to answer";
  EXPECT_EQ(Objects(), "mnist-uid-1-1-worker-0-placeholder mnist-uid-1-1-worker-1-placeholder");
}

TEST_F(ShowPlaceholdersTest, MarkThatSomebodyTookOffAndPodThatSomebodyDeletedComeBack) {
  Show();
  pods()[0].conditions = Json::array();
  pods().pop_back();
  EXPECT_EQ(Step(),
            "patch pods/mnist-uid-1-1-worker-0-placeholder, "
            "create pods/mnist-uid-1-1-worker-1-placeholder");
}

TEST_F(ShowPlaceholdersTest, GangThatHasRoomRemovesThemBeforeItsPodsCome) {
  Show();
  world_.AddNode("new");
  const Decision decision = world_.Step();
  int removed = 0;
  for (const Effect& effect : decision.effects) {
    if (std::holds_alternative<WriteObject>(effect)) {
      EXPECT_LT(PhaseOf(effect), PhaseOf(CreatePod())) << DescribeEffect(effect);
      Carry(std::get<WriteObject>(effect));
      ++removed;
    }
  }
  EXPECT_EQ(removed, 2);
  EXPECT_TRUE(pods().empty());
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
  EXPECT_EQ(Step(), "");
}

TEST_F(ShowPlaceholdersTest, NodesThatAreTooFewChangeNothing) {
  Show();
  world_.AddNode("half");
  world_.nodes()[0].allocatable.gpu_count = 4;
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(pods().size(), 2U);
  EXPECT_EQ(world_.Pods(), "");
}

TEST_F(ShowPlaceholdersTest, OneThatIsRefusedTakesAllBackAndIsToldOf) {
  const std::string refused = "mnist-uid-1-1-worker-1-placeholder";
  Carry(WritesOf(world_.Step()).at(0));
  sight().refusals[refused] = "exceeded quota: pods, used 1, limited 1";
  const Decision decision = world_.Step();
  EXPECT_NE(EventReasons(decision).find("CapacityNotProvisioned"), std::string::npos);
  for (const WriteObject& write : WritesOf(decision)) {
    Carry(write);
  }
  EXPECT_TRUE(pods().empty()) << "nodes would come for a gang that cannot start";
  EXPECT_TRUE(Says("pod " + refused + " was refused: exceeded quota")) << Why();
  EXPECT_TRUE(Says("Lockstep asks autoscalers for nodes again at ")) << Why();
  EXPECT_EQ(Step(), "");
  world_.Advance(seconds(5));
  EXPECT_EQ(Step(),
            "create pods/mnist-uid-1-2-worker-0-placeholder, "
            "create pods/mnist-uid-1-2-worker-1-placeholder");
}

TEST_F(ShowPlaceholdersTest, OneThatSomebodyMadeUselessTakesAllBackAndIsToldOf) {
  Show();
  pods()[0].trouble = "was given the scheduler volcano by a webhook";
  Step();
  EXPECT_TRUE(pods().empty());
  EXPECT_TRUE(Says("worker-0-placeholder was given the scheduler volcano by a webhook")) << Why();
  world_.Advance(seconds(5));
  Show();
}

TEST_F(ShowPlaceholdersTest, NameThatSomebodyElseHasIsToldOfAndLeftAlone) {
  const std::string name = "mnist-uid-1-1-worker-0-placeholder";
  pods().push_back({name, "theirs", "", false, false, Json()});
  Step();
  Step();
  ASSERT_EQ(pods().size(), 1U);
  EXPECT_EQ(pods()[0].uid, "theirs");
  EXPECT_TRUE(Says("pod " + name + " does not belong to this job")) << Why();
}

TEST_F(ShowPlaceholdersTest, WhoMayNotStartForAnotherReasonShowsNothing) {
  for (const Constraint constraint : {Constraint::kQuota,
                                      Constraint::kQueue,
                                      Constraint::kPreemption,
                                      Constraint::kPriorityClass,
                                      Constraint::kTopology}) {
    Show();
    world_.observed.round = Unschedulable{constraint, "waits"};
    Step();
    EXPECT_TRUE(pods().empty()) << static_cast<int>(constraint);
    world_.observed.round = Unschedulable{Constraint::kGpu, "needs 8 GPUs, 0 free"};
    world_.Advance(seconds(5));
  }
}

TEST_F(ShowPlaceholdersTest, WaitThatIsOverDoesNotSayThatTheyAreShown) {
  world_.job.spec.scheduling.timeout = seconds(60);
  Show();
  world_.Advance(seconds(60));
  Step();
  EXPECT_TRUE(pods().empty());
  EXPECT_TRUE(
      Says("; 2 placeholder pods (label lockstep.dev/placeholder-of=mnist) showed cluster "
           "autoscalers what the gang needs"))
      << Why();
}

TEST_F(ShowPlaceholdersTest, NoneIsLeftOverHoweverTheWaitEnds) {
  std::vector<WaitEnd> ends = WaitEnds();
  ends.push_back({"asks in another way, which is not followed", [](TestWorld* world) {
                    world->job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
                  }});
  ExpectNothingLeftOver(ends);
}

TEST_F(ShowPlaceholdersTest, EditOfTheGangShowsAnotherAndTheWayOfAskingMayChange) {
  Show();
  world_.job.spec.roles[0].gpus = 8;
  ++world_.job.metadata.generation;
  Step();
  ASSERT_EQ(pods().size(), 2U);
  EXPECT_EQ(pods()[0].name, "mnist-uid-1-2-worker-0-placeholder");

  sight().is_followed = true;
  world_.job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  ++world_.job.metadata.generation;
  Step();
  EXPECT_TRUE(pods().empty());
  EXPECT_EQ(sight().templates.size(), 1U);
}

TEST_F(ShowPlaceholdersTest, LargeGangIsShownInPartsAndIsGoneAtOnce) {
  Begin(ShowingJob(1000));
  std::size_t turns = 0;
  for (; turns < 100; ++turns) {
    const std::vector<WriteObject> writes = WritesOf(world_.Step());
    if (writes.empty()) {
      break;
    }
    EXPECT_LE(writes.size(), 64U);
    for (const WriteObject& write : writes) {
      Carry(write);
    }
  }
  EXPECT_LT(turns, 100U);
  ASSERT_EQ(pods().size(), 1000U);
  EXPECT_TRUE(std::all_of(
      pods().begin(), pods().end(), [](const auto& pod) { return IsShown(pod.conditions); }));
  world_.job.spec.run_policy.suspend = true;
  Step();
  EXPECT_TRUE(pods().empty());
}

TEST_F(ShowPlaceholdersTest, OperatorThatMakesNoneIsToldOfOnce) {
  sight().are_placeholders_followed = false;
  sight().is_followed = true;
  const Decision decision = world_.Step();
  EXPECT_TRUE(WritesOf(decision).empty());
  EXPECT_NE(EventReasons(decision).find("ProvisioningNotFollowed"), std::string::npos);
  EXPECT_TRUE(Says("--placeholder-pods")) << Why();
  EXPECT_EQ(EventReasons(world_.Step()).find("ProvisioningNotFollowed"), std::string::npos);
  sight().are_placeholders_followed = true;
  EXPECT_NE(Step(), "");
}

TEST_F(ShowPlaceholdersTest, NoneIsLeftOverAfterAnyStory) {
  ExpectNothingLeftOverAfterStories(ShowingJob(), [&](Prng& prng) {
    if (pods().empty()) {
      return;
    }
    if (prng.Below(2) == 0) {
      pods()[prng.Below(pods().size())].trouble = "has ended";
    } else {
      pods().pop_back();  // somebody deletes one
    }
  });
}

TEST(PlaceholderPod, AsksForWhatItsPodAsksForAndIsTakenForNoWorker) {
  TrainingJob job = ShowingJob();
  RoleSpec& role = job.spec.roles[0];
  role.pod.requests.cpu_milli = 1500;
  role.pod.overhead.cpu_milli = 250;
  job.spec.scheduling.priority_class_name = "high";
  role.pod.raw = Json::object(
      {{"metadata", {{"labels", {{"app", "served"}, {kKueueQueueLabel, "team-a"}}}}},
       {"spec",
        {{"nodeSelector", {{"pool", "a"}}},
         {"tolerations", Json::array({{{"key", "gpu"}, {"operator", "Exists"}}})},
         {"runtimeClassName", "kata"},
         {"overhead", {{"cpu", "250m"}}},
         {"serviceAccountName", "trainer"},
         {"containers",
          Json::array({{{"name", "trainer"},
                        {"ports", Json::array({{{"containerPort", 80}, {"hostPort", 8080}}})},
                        {"env", Json::array({{{"name", "TOKEN"}, {"value", "secret"}}})}}})}}}});
  job.status.provisioning =
      CapacityAsk{7, OpenAsk{ProvisioningClass::kPlaceholderPods, "rev", {}}, 0, {}, ""};

  const Json pod = PlaceholderManifest(job, role, 1, {});
  EXPECT_EQ(pod["kind"], "Pod");
  EXPECT_EQ(pod["metadata"]["name"], "mnist-uid-1-7-worker-1-placeholder");
  EXPECT_EQ(pod["metadata"]["labels"], Json({{"lockstep.dev/placeholder-of", "mnist"}}));
  EXPECT_EQ(pod["metadata"]["annotations"][kCapacityRevision], "rev");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  const Json& spec = pod["spec"];
  EXPECT_EQ(spec["schedulerName"], kPlaceholderScheduler);
  EXPECT_EQ(spec["nodeSelector"]["pool"], "a");
  EXPECT_EQ(spec["tolerations"][0]["key"], "gpu");
  EXPECT_EQ(spec["priorityClassName"], "high");
  EXPECT_EQ(spec["runtimeClassName"], "kata");
  EXPECT_EQ(spec["overhead"]["cpu"], "250m");
  EXPECT_EQ(spec.count("nodeName"), 0U);
  const Json& container = spec["containers"][0];
  EXPECT_EQ(container["image"], "example/train:1");
  EXPECT_EQ(container["command"], Json::array({kPlaceholderScheduler})) << "not the job's program";
  EXPECT_EQ(container["resources"]["requests"]["cpu"], "1500m") << "the overhead comes on top";
  EXPECT_EQ(container["resources"]["requests"]["nvidia.com/gpu"], "4");
  EXPECT_EQ(container["resources"]["limits"], container["resources"]["requests"]);
  EXPECT_EQ(container["ports"][0]["hostPort"], 8080);
  EXPECT_EQ(container["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(DumpJson(pod).find("secret"), std::string::npos);
  EXPECT_EQ(DumpJson(pod).find("lockstep.dev/job"), std::string::npos);
}

// Labels can be edited, and who follows pods by them loses sight of one.
TEST(PlaceholderPod, IsFollowedByItsSchedulerWhateverItsLabels) {
  TrainingJob job = ShowingJob();
  job.status.provisioning =
      CapacityAsk{7, OpenAsk{ProvisioningClass::kPlaceholderPods, "rev", {}}, 0, {}, ""};
  const Json pod = PlaceholderManifest(job, job.spec.roles[0], 0, {});
  const kube::Selection selection = SelectPlaceholders("team");
  EXPECT_EQ(selection.namespace_name, "team");
  EXPECT_EQ(selection.label_selector, "");
  EXPECT_EQ(selection.field_selector,
            "spec.schedulerName=" + pod["spec"]["schedulerName"].get<std::string>());
}

TEST(PlaceholderPod, AnotherPriorityClassIsAnotherAsk) {
  TrainingJob job = ShowingJob();
  const auto revision = [&] {
    return RevisionOfCapacity(job, ProvisioningClass::kPlaceholderPods);
  };
  const std::string before = revision();
  EXPECT_NE(before, RevisionOfCapacity(job, ProvisioningClass::kCheckCapacity));
  job.spec.scheduling.priority_class_name = "high";
  EXPECT_NE(revision(), before);
}

}  // namespace
}  // namespace lockstep::control
