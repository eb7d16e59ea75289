#include "operator/capacity/testing/capacity_case.h"

#include "operator/api/job/kueue_admission.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

constexpr int kStories = 300;
constexpr std::size_t kObjectsMax = 16;  // of a story: a few asks of a job of two pods

}  // namespace

std::vector<WaitEnd> WaitEnds() {
  return {
      {"suspended", [](TestWorld* world) { world->job.spec.run_policy.suspend = true; }},
      {"field removed",
       [](TestWorld* world) { world->job.spec.scheduling.provisioning = Provisioning::kNone; }},
      {"ended",
       [](TestWorld* world) {
         SetCondition(&world->job.status, {ConditionType::kFailed, true, "A", "b"}, WallTime{});
       }},
      {"deleted, and kept by a finalizer",
       [](TestWorld* world) { world->observed.is_job_deleting = true; }},
      {"waits for Kueue",
       [](TestWorld* world) { world->job.metadata.labels[kKueueQueueLabel] = "team-a"; }},
      {"waits for PodGroups",
       [](TestWorld* world) { world->job.spec.scheduling.binding = PodBinding::kNative; }},
      {"status wiped and suspended",
       [](TestWorld* world) {
         world->job.status = TrainingJobStatus();
         world->job.spec.run_policy.suspend = true;
       }},
  };
}

void CapacityCase::ExpectNothingLeftOver(const std::vector<WaitEnd>& ends) {
  for (const WaitEnd& end : ends) {
    for (const int turns : {1, 2}) {
      const TestWorld before = world_;
      for (int turn = 0; turn < turns; ++turn) {
        Step();
      }
      ASSERT_NE(Objects(), "") << end.name;
      end.act(&world_);
      ++world_.job.metadata.generation;
      Step();
      EXPECT_EQ(Objects(), "") << end.name << " after turn " << turns;
      EXPECT_EQ(Step(), "") << end.name;
      world_ = before;
    }
  }
}

void CapacityCase::ExpectNothingLeftOverAfterStories(const TrainingJob& job, const Move& move) {
  int stories_with_objects = 0;
  for (uint64_t seed = 1; seed <= kStories; ++seed) {
    Begin(job);
    const std::size_t most_objects = TellStory(seed, move);
    EXPECT_EQ(Objects(), "") << "seed " << seed;
    EXPECT_LE(most_objects, kObjectsMax) << "seed " << seed;
    stories_with_objects += most_objects > 0 ? 1 : 0;
  }
  EXPECT_GT(stories_with_objects, kStories * 5 / 6) << "else the seeds prove nothing";
}

}  // namespace lockstep::control
