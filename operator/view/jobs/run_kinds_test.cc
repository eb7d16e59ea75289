#include "operator/view/jobs/run_kinds.h"

#include <functional>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

TrainingJob CommandJob() {
  TrainingJob job = MakeTrainingJob(2);
  job.spec.training.reset();
  job.spec.roles.front().pod.image = "team/trainer:3";
  job.spec.roles.front().pod.command = {"python3", "train.py"};
  return job;
}

StoredJob Succeeded() {
  StoredJob stored;
  stored.job = CommandJob();
  stored.job.metadata.uid = "uid-1";
  stored.job.metadata.generation = 4;
  TrainingJobStatus& status = stored.job.status;
  status.origin.generation = 4;
  status.start_time = WallTime{std::chrono::seconds(1000)};
  status.completion_time = WallTime{std::chrono::seconds(1090)};
  status.conditions.push_back({ConditionType::kSucceeded, true, "Succeeded", ""});
  return stored;
}

TEST(RunKinds, SameManifestIsOfTheSameKindWhateverTheJobIsCalled) {
  TrainingJob job = CommandJob();
  const std::vector<std::string> kinds = KindsOf(job);
  ASSERT_EQ(kinds.size(), 2U);
  job.metadata.name = "another";
  job.spec.scheduling.queue = "vision";
  job.spec.run_policy.active_deadline = std::chrono::seconds(60);
  EXPECT_EQ(KindsOf(job), kinds);
}

TEST(RunKinds, RevisionThatIsKnownIsNotComputedAgain) {
  TrainingJob job = CommandJob();
  job.revision = "as it was read";
  const std::vector<std::string> kinds = KindsOf(job);
  job.spec.roles.front().pod.raw = Json::object();
  EXPECT_EQ(KindsOf(job)[0], kinds[0]);
}

TEST(RunKinds, OtherArgumentsAreOfTheSameWiderKind) {
  TrainingJob job = CommandJob();
  const std::vector<std::string> kinds = KindsOf(job);
  job.spec.roles.front().pod.raw =
      Json::object({{"spec", {{"containers", {{{"args", {"--lr=0.1"}}}}}}}});
  EXPECT_NE(KindsOf(job)[0], kinds[0]);
  EXPECT_EQ(KindsOf(job)[1], kinds[1]);
}

TEST(RunKinds, OtherNamespacesImagesAndShapesAreOfNoCommonKind) {
  const TrainingJob job = CommandJob();
  const auto differs = [&](const std::function<void(TrainingJob*)>& edit) {
    TrainingJob other = job;
    edit(&other);
    return KindsOf(other)[1] != KindsOf(job)[1];
  };
  EXPECT_TRUE(differs([](TrainingJob* other) { other->metadata.namespace_name = "team-b"; }));
  EXPECT_TRUE(differs([](TrainingJob* other) { other->spec.roles.front().replicas = 3; }));
  EXPECT_TRUE(differs([](TrainingJob* other) { other->spec.roles.front().gpus = 3; }));
  EXPECT_TRUE(differs([](TrainingJob* other) { other->spec.roles.front().pod.image = "x"; }));
  EXPECT_TRUE(differs([](TrainingJob* other) {
    other->spec.roles.front().pod.requests.others.push_back({"rdma/hca", 1});
  }));
}

TEST(RunKinds, OurOwnTrainerIsOfItsManifestAlone) {
  EXPECT_EQ(KindsOf(MakeTrainingJob(1)).size(), 1U);
}

TEST(RunKinds, RunIsFromItsPlacesToItsSuccess) {
  const std::optional<EndedRun> run = RunOf(Succeeded());
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->run_time, std::chrono::seconds(90));
  EXPECT_EQ(run->ended_at, WallTime{std::chrono::seconds(1090)});
  EXPECT_EQ(run->id, "uid-1");
}

TEST(RunKinds, NothingIsLearntFromWhatFailedOrBeganAnewOrWasEdited) {
  const auto teaches = [](const std::function<void(StoredJob*)>& edit) {
    StoredJob stored = Succeeded();
    edit(&stored);
    return RunOf(stored).has_value();
  };
  EXPECT_TRUE(teaches([](StoredJob*) {}));
  EXPECT_FALSE(teaches([](StoredJob* stored) {
    stored->job.status.conditions.front().type = ConditionType::kFailed;
  }));
  EXPECT_FALSE(teaches([](StoredJob* stored) { stored->job.status.attempt = Attempt(1); }));
  EXPECT_FALSE(teaches([](StoredJob* stored) { stored->job.status.relaunch.count = 1; }));
  EXPECT_FALSE(teaches([](StoredJob* stored) { ++stored->job.metadata.generation; }));
  EXPECT_FALSE(teaches([](StoredJob* stored) { stored->job.status.start_time.reset(); }));
  EXPECT_FALSE(teaches([](StoredJob* stored) {
    stored->job.status.completion_time = WallTime{std::chrono::seconds(999)};
  }));
  EXPECT_FALSE(teaches([](StoredJob* stored) { stored->problem = "spec.roles: missing"; }));
}

}  // namespace
}  // namespace lockstep::control
