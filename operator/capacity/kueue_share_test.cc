#include "operator/capacity/kueue_share.h"

#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/capacity/kueue_workload.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/reconcile/pods/pod_manifest.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TrainingJob QueuedJob() {
  TrainingJob job = MakeTrainingJob(2);
  job.metadata.labels[kKueueQueueLabel] = "team-a";
  return job;
}

Json WorkloadCondition(const std::string& type, bool is_true, const std::string& message = "") {
  return {{"type", type},
          {"status", is_true ? "True" : "False"},
          {"reason", type == "Evicted" ? "Preempted" : "Reason"},
          {"message", message},
          {"lastTransitionTime", "2026-11-21T10:22:03Z"}};
}

// A job's world with a Kueue in it, whose Workload the test plays.
class KueueShare : public ::testing::Test {
 protected:
  KueueShare() { world_.observed.kueue.is_followed = true; }

  // What was written of the Workload in this turn; none: nothing was.
  static std::vector<WriteObject> Written(const Decision& decision) {
    std::vector<WriteObject> written;
    for (const Effect& effect : decision.effects) {
      if (const auto* const write = std::get_if<WriteObject>(&effect)) {
        written.push_back(*write);
      }
    }
    return written;
  }

  // The Workload as it was made, with these conditions.
  WorkloadSight& Workload(const Json& conditions = Json::array()) {
    WorkloadSight workload;
    workload.uid = "workload-1";
    workload.version = "7";
    workload.is_ours = true;
    workload.revision = WorkloadRevision(world_.job);
    workload.conditions = conditions;
    world_.observed.kueue.workload = workload;
    return *world_.observed.kueue.workload;
  }

  void Admit() {
    KueueAdmission admission;
    admission.workload_uid = "workload-1";
    admission.cluster_queue = "gpus";
    admission.pod_sets = {{Role::kWorker, {}, {}, {}, {}}};
    Workload(Json::array(
                 {WorkloadCondition("QuotaReserved", true), WorkloadCondition("Admitted", true)}))
        .admission = admission;
  }

  void Launch() {
    Admit();
    world_.Step();  // what admission says is stored first
    world_.Launch();
  }

  std::string Why() { return MessageOf(world_.job.status, ConditionType::kScheduled); }

  std::string Reason() {
    return FindCondition(world_.job.status, ConditionType::kScheduled)->reason;
  }

  TestWorld world_{QueuedJob()};
};

TEST_F(KueueShare, JobWithTheLabelShowsItselfAndHasNoPodBeforeItIsAdmitted) {
  const std::vector<WriteObject> written = Written(world_.Step());

  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].kind, WriteObject::Kind::kCreate);
  EXPECT_EQ(written[0].name, "trainingjob-mnist-uid-1");
  EXPECT_EQ(Reason(), "WaitsForKueue");
  Workload(Json::array(
      {WorkloadCondition("QuotaReserved", false, "insufficient unused quota for nvidia.com/gpu")}));
  EXPECT_TRUE(Written(world_.Step()).empty());
  EXPECT_EQ(Why(), "waits in Kueue's queue team-a: insufficient unused quota for nvidia.com/gpu");
  EXPECT_TRUE(AwaitsKueue(world_.job)) << "else a round would give it room";
  EXPECT_EQ(world_.Pods(), "");

  Admit();
  world_.Step();
  EXPECT_EQ(world_.Pods(), "") << "what admission says is not stored yet";
  EXPECT_FALSE(AwaitsKueue(world_.job));
  world_.Launch();
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
}

TEST_F(KueueShare, JobWithoutTheLabelHasNothingToDoWithIt) {
  world_.job.metadata.labels.clear();
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(Written(world_.Step()).empty());
    world_.RunAll();
  }
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kRunning));
}

TEST_F(KueueShare, WithoutKueueTheLabelIsAnsweredWithWhatIsMissing) {
  world_.observed.kueue.is_followed = false;
  EXPECT_TRUE(Written(world_.Step()).empty());
  EXPECT_EQ(Reason(), "KueueNotFollowed");
  EXPECT_NE(Why().find("kueue.enabled"), std::string::npos);
  EXPECT_EQ(world_.Pods(), "");
}

TEST_F(KueueShare, LabelsOfKueueThatNobodyHeedsAreNamed) {
  world_.job.metadata.labels["kueue.x-k8s.io/priority-class"] = "high";
  EXPECT_TRUE(Written(world_.Step()).empty());
  EXPECT_NE(Why().find("kueue.x-k8s.io/priority-class"), std::string::npos);
}

TEST_F(KueueShare, PodsAreWhereAndAsAdmissionSays) {
  Admit();
  KueuePodSet& pod_set = world_.observed.kueue.workload->admission->pod_sets[0];
  pod_set.node_selector = {{"pool", "spot"}};
  pod_set.tolerations = {{"spot", true, "", "NoSchedule"}};
  pod_set.annotations = {{"example.com/provisioned", "yes"}};
  world_.AddNode("node-b");
  world_.nodes()[1].labels["pool"] = "spot";
  world_.nodes()[1].taints = {{"spot", "", "NoSchedule"}};
  world_.Step();
  world_.Launch();

  for (const PodPlacement& placement : world_.job.status.placement) {
    EXPECT_EQ(placement.node, "node-b");
  }
  const Json pod =
      PodManifest(world_.job, *world_.Find("mnist-worker-0"), world_.observed.settings);
  EXPECT_EQ(pod["spec"]["nodeSelector"]["pool"], "spot");
  EXPECT_EQ(pod["spec"]["tolerations"][0]["key"], "spot");
  EXPECT_EQ(pod["metadata"]["annotations"]["example.com/provisioned"], "yes");
}

TEST_F(KueueShare, EvictedGangSavesAndGivesItsQuotaBackWhenItsPodsAreGone) {
  Launch();
  const Attempt attempt = world_.job.status.attempt;
  KueueAdmission admission = *world_.job.status.kueue;
  Workload(Json::array({WorkloadCondition("QuotaReserved", true),
                        WorkloadCondition("Admitted", true),
                        WorkloadCondition("Evicted", true, "Preempted to accommodate a workload")}))
      .admission = admission;

  const Decision decision = world_.Step();
  int told = 0;
  for (const Effect& effect : decision.effects) {
    told += std::holds_alternative<SendControl>(effect) ? 1 : 0;
  }
  EXPECT_EQ(told, 2) << "ranks save what they have";
  EXPECT_EQ(world_.Pods(), "mnist-worker-0- mnist-worker-1-");
  EXPECT_TRUE(Written(decision).empty()) << "its pods hold the quota still";
  EXPECT_EQ(Reason(), "Preempted");
  EXPECT_EQ(world_.job.status.attempt, attempt.Next());
  EXPECT_TRUE(Written(world_.Step()).empty());

  world_.FinishDeletions();
  const std::vector<WriteObject> written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].kind, WriteObject::Kind::kPatch);
  const Json patch = ParseJson(written[0].body).value();
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "7");
  EXPECT_TRUE(patch["status"]["admission"].is_null());
  EXPECT_EQ(patch["status"]["conditions"][0]["status"], "False") << "QuotaReserved";
  EXPECT_EQ(world_.Pods(), "");

  Launch();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kRunning)) << "admitted once more";
  EXPECT_EQ(DescribeRestarts(world_.job.status), "");
}

TEST_F(KueueShare, DeletedWorkloadTakesTheShareWithIt) {
  Launch();
  world_.observed.kueue.workload.reset();
  world_.Step();
  EXPECT_EQ(world_.Pods(), "mnist-worker-0- mnist-worker-1-");
  world_.FinishDeletions();
  const std::vector<WriteObject> written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].kind, WriteObject::Kind::kCreate);
}

TEST_F(KueueShare, GangStaysWhileNobodyTellsOfKueue) {
  Launch();
  world_.observed.kueue = {};
  world_.Step();
  EXPECT_EQ(world_.Pods(), "mnist-worker-0 mnist-worker-1");
}

TEST_F(KueueShare, SuspendedJobGivesItsWorkloadUpWhenItsPodsAreGone) {
  Launch();
  world_.job.spec.run_policy.suspend = true;
  EXPECT_TRUE(Written(world_.Step()).empty());
  EXPECT_FALSE(world_.job.status.kueue.has_value());
  world_.FinishDeletions();
  std::vector<WriteObject> written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].kind, WriteObject::Kind::kPatch) << "its quota first";
  EXPECT_NE(written[0].body.find(R"("type":"Requeued","status":"False")"), std::string::npos);
  Workload(Json::array({WorkloadCondition("QuotaReserved", false)}));
  written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].kind, WriteObject::Kind::kDelete);
  EXPECT_EQ(written[0].uid, "workload-1");
}

TEST_F(KueueShare, AnotherShapeAsksAnewAndAnotherQueueToo) {
  Workload();
  world_.Step();
  world_.job.metadata.labels[kKueueQueueLabel] = "team-b";
  const std::vector<WriteObject> written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].kind, WriteObject::Kind::kDelete);

  Workload();
  EXPECT_TRUE(Written(world_.Step()).empty());
  world_.job.spec.roles[0].gpus = 2;
  EXPECT_EQ(Written(world_.Step()).size(), 1U);
}

TEST_F(KueueShare, KueueHearsThatThePodsRunAndThatTheJobHasEnded) {
  Admit();
  world_.Step();
  std::vector<WriteObject> written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(written[0].body.find(R"("PodsReady","status":"False","reason":"WaitForStart")"),
            std::string::npos)
      << written[0].body;
  world_.RunAll();
  written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(written[0].body.find(R"("PodsReady","status":"True")"), std::string::npos);
  world_.observed.kueue.workload->conditions.push_back(
      {{"type", "PodsReady"}, {"status", "True"}, {"reason", "Started"}});
  EXPECT_TRUE(Written(world_.Step()).empty());

  world_.Exit("mnist-worker-0", 1);
  written = Written(world_.Step());
  ASSERT_TRUE(HasEnded(world_.job.status));
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(written[0].body.find(R"("Finished","status":"True","reason":"Failed")"),
            std::string::npos)
      << written[0].body;
  EXPECT_NE(written[0].body.find("QuotaReserved"), std::string::npos) << "others stay";
}

TEST_F(KueueShare, GangThatWentForAnotherKeepsItsQuotaAndIsNotReady) {
  Launch();
  world_.observed.kueue.workload->conditions.push_back(
      {{"type", "PodsReady"}, {"status", "True"}, {"reason", "Started"}});
  world_.observed.eviction = EvictionOrder{"team/urgent", 1000, "vision", false};
  world_.Step();
  world_.observed.eviction.reset();
  world_.observed.round = Unschedulable{Constraint::kGpu, "needs 2 GPUs, 0 free"};
  world_.FinishDeletions();
  const std::vector<WriteObject> written = Written(world_.Step());
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(written[0].body.find(R"("PodsReady","status":"False","reason":"WaitForRecovery")"),
            std::string::npos)
      << written[0].body;
  EXPECT_TRUE(world_.job.status.kueue.has_value());
  EXPECT_EQ(Reason(), "Unschedulable");
}

TEST_F(KueueShare, NothingIsClaimedOfOthersWithoutAShare) {
  Admit();
  world_.Step();
  const RoomClaim claim{
      world_.now, {{"default/low", "uid-low", Attempt()}}, {{"worker-0", "node-a"}}};
  world_.observed.round = Unschedulable{Constraint::kPreemption, "waits for 1 gang to end"};
  world_.observed.claim = claim;
  world_.Step();
  ASSERT_EQ(world_.job.status.claim, claim);
  world_.observed.kueue.workload->admission->cluster_queue = "spot";
  world_.Step();
  EXPECT_FALSE(world_.job.status.claim.has_value()) << "it was planned for other nodes, maybe";
  world_.Step();
  ASSERT_EQ(world_.job.status.claim, claim);
  world_.observed.kueue.workload->conditions.push_back(
      WorkloadCondition("Evicted", true, "preempted"));
  world_.Step();
  EXPECT_FALSE(world_.job.status.claim.has_value())
      << "else they would go when it is admitted again, whatever has become of them";
}

TEST_F(KueueShare, WithoutItsPriorityClassAJobNeitherAsksNorGivesUp) {
  world_.observed.kueue.missing_class = "priority class urgent does not exist";
  EXPECT_TRUE(Written(world_.Step()).empty());
  EXPECT_EQ(Reason(), "NoPriorityClass");
  Workload(Json::array({WorkloadCondition("QuotaReserved", false, "no quota")}));
  EXPECT_TRUE(Written(world_.Step()).empty());
  world_.observed.kueue.missing_class.clear();
  world_.Step();
  EXPECT_EQ(Reason(), "WaitsForKueue");
}

TEST_F(KueueShare, SomebodyElsesWorkloadIsLeftAlone) {
  Workload().is_ours = false;
  EXPECT_TRUE(Written(world_.Step()).empty());
  EXPECT_EQ(Reason(), "WorkloadNameTaken");
}

TEST_F(KueueShare, AssignmentThatTheTemplateContradictsIsNamed) {
  world_.job.spec.roles[0].pod.node_selector = {{"pool", "reserved"}};
  Admit();
  world_.observed.kueue.workload->admission->pod_sets[0].node_selector = {{"pool", "spot"}};
  world_.Step();
  EXPECT_EQ(Reason(), "KueueNotHeeded");
  EXPECT_NE(Why().find("pool=reserved"), std::string::npos);
}

TEST_F(KueueShare, WaitForKueueCountsAsWaitForAGang) {
  world_.job.spec.scheduling.timeout = std::chrono::seconds(60);
  world_.Step();
  Workload(Json::array({WorkloadCondition("QuotaReserved", false, "no quota")}));
  world_.Advance(std::chrono::seconds(61));
  world_.Step();
  EXPECT_TRUE(IsTrue(world_.job.status, ConditionType::kFailed));
  EXPECT_NE(MessageOf(world_.job.status, ConditionType::kFailed).find("no quota"),
            std::string::npos);
}

TEST_F(KueueShare, RefusedWorkloadIsToldInTheServersWords) {
  world_.observed.kueue.refusal = "workloads is forbidden";
  EXPECT_EQ(Written(world_.Step()).size(), 1U);
  EXPECT_NE(Why().find("was refused: workloads is forbidden"), std::string::npos);
}

TEST(WorkloadManifest, AsksForWhatThePodsAskForAndHoldsNothingElseOfTheTemplate) {
  TrainingJob job = QueuedJob();
  job.spec.roles[0].gpus = 4;
  job.spec.roles[0].pod.requests.cpu_milli = 1500;
  job.spec.roles[0].pod.raw = Json::object(
      {{"spec",
        {{"nodeSelector", {{"pool", "a"}}},
         {"containers",
          Json::array({{{"name", "trainer"},
                        {"env", Json::array({{{"name", "TOKEN"}, {"value", "secret"}}})}}})}}}});
  job.spec.scheduling.priority_class_name = "high";

  const Json workload = WorkloadManifest(job, 1000);

  EXPECT_EQ(workload["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  EXPECT_EQ(workload["spec"]["queueName"], "team-a");
  EXPECT_EQ(workload["spec"]["priority"], 1000);
  EXPECT_EQ(workload["spec"]["priorityClassRef"]["name"], "high");
  const Json& pod_set = workload["spec"]["podSets"][0];
  EXPECT_EQ(pod_set["name"], "worker");
  EXPECT_EQ(pod_set["count"], 2);
  const Json& spec = pod_set["template"]["spec"];
  EXPECT_EQ(spec["nodeSelector"]["pool"], "a");
  const Json& requests = spec["containers"][0]["resources"]["requests"];
  EXPECT_EQ(requests["nvidia.com/gpu"], "4");
  EXPECT_EQ(requests["cpu"], "1500m");
  EXPECT_EQ(DumpJson(workload).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::control
