#include "operator/view/pods/going_pods.h"

#include <memory>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

// A pod of the job, both as they are, and what is changed of either.
class GoingPodsTest : public testing::Test {
 protected:
  GoingPodsTest() {
    stored_.job = MakeTrainingJob(1);
    stored_.job.metadata.name = "a";
    pod_.owner_uid = "uid";
    pod_.owner_job = "a";
    pod_.status.phase = kube::PodPhase::kRunning;
    Set(ConditionType::kCreated, true, "JobCreated");
  }

  bool Goes(bool has_place = false) {
    const kube::Item<StoredJob> job{
        {"default", "a"}, "uid", "1", std::make_shared<const StoredJob>(stored_)};
    return IsGoing(pod_, {&job, true, has_place});
  }

  void Set(ConditionType type, bool is_true, std::string_view reason) {
    SetCondition(&stored_.job.status, {type, is_true, std::string(reason), ""}, WallTime{});
  }

  StoredJob stored_;
  kube::Pod pod_;
};

TEST_F(GoingPodsTest, PodWithAPlaceIsReplacedUnlessItsJobGoes) {
  EXPECT_FALSE(Goes(true));
  pod_.is_deleting = true;
  EXPECT_FALSE(Goes(true));
  stored_.is_deleting = true;
  EXPECT_TRUE(Goes(true));
}

TEST_F(GoingPodsTest, PodWithoutAPlaceIsDeletedByUs) {
  EXPECT_TRUE(Goes());
  stored_.job.status.placement.emplace_back();
  EXPECT_FALSE(Goes()) << "nobody has come for it";
  pod_.is_deleting = true;
  EXPECT_TRUE(Goes());
}

// Others would go for a gang that waits for its room.
TEST_F(GoingPodsTest, PodFromWhichAJobIsTakenUpStays) {
  stored_.job.status = {};
  EXPECT_FALSE(Goes());
  pod_.is_deleting = true;
  EXPECT_TRUE(Goes());
}

TEST_F(GoingPodsTest, PodWhosePlaceItsSuccessorHasIsDeletedByUs) {
  const auto pod_of = [this](int64_t incarnation) {
    pod_.name = PodName("a", {Role::kWorker, 0}, {Attempt(), Incarnation(incarnation)});
  };
  PodPlacement placement;
  placement.role = Role::kWorker;
  placement.incarnation = Incarnation(1);
  stored_.job.status.placement = {placement};
  pod_of(0);
  EXPECT_TRUE(Goes());
  pod_of(2);
  EXPECT_FALSE(Goes()) << "it is newer than what is known of the places";
  pod_of(0);
  stored_.is_deleting = true;
  EXPECT_FALSE(Goes()) << "a job that is being deleted is not decided on";
}

TEST_F(GoingPodsTest, NobodyDeletesThoseOfAJobThatIsNotOurs) {
  stored_.job.spec.run_policy.managed_by = "example.com/other";
  EXPECT_FALSE(Goes());
  stored_.job.spec.run_policy.managed_by.clear();
  stored_.problem = "it cannot be read";
  EXPECT_FALSE(Goes());
}

TEST_F(GoingPodsTest, PodsOfAJobThatCannotBeReadGoWithItsPlaces) {
  stored_.problem = "it cannot be read";
  Set(ConditionType::kScheduled, false, kReasonPreempted);
  EXPECT_TRUE(Goes()) << "others have its room";
  stored_.job.status.placement.emplace_back();
  EXPECT_FALSE(Goes());
  Set(ConditionType::kFailed, true, kReasonDeadlineExceeded);
  EXPECT_TRUE(Goes());
}

TEST_F(GoingPodsTest, StuckPodStays) {
  pod_.is_deleting = true;
  Set(ConditionType::kScheduled, false, kReasonPodStuck);
  EXPECT_FALSE(Goes());
}

TEST_F(GoingPodsTest, PodOfAJobThatHasEndedGoesByItsPolicy) {
  Set(ConditionType::kSucceeded, true, "Any");
  stored_.job.spec.run_policy.clean_pod_policy = CleanPodPolicy::kNone;
  EXPECT_FALSE(Goes());
  stored_.job.spec.run_policy.clean_pod_policy = CleanPodPolicy::kRunning;
  EXPECT_TRUE(Goes());
}

TEST_F(GoingPodsTest, PodWhoseOwnerIsGoneIsCollected) {
  EXPECT_TRUE(IsGoing(pod_, {nullptr, true, false}));
  EXPECT_FALSE(IsGoing(pod_, {nullptr, false, false})) << "jobs of that namespace are not known";
  pod_.owner_uid = "uid of an earlier one";
  EXPECT_TRUE(Goes());
  pod_.owner_job.clear();
  EXPECT_FALSE(Goes()) << "it is somebody else's";
  pod_.is_deleting = true;
  EXPECT_TRUE(Goes());
}

}  // namespace
}  // namespace lockstep::control
