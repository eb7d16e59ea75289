#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/cli/summary/summary.h"

namespace lockstep::control {
namespace {

const TrainedSteps::value_type kStep12{std::nullopt, Step(12)};

bool IsSaved(Step trained, const std::vector<FoundCheckpoint>& newest) {
  return !FirstUnsaved({{std::nullopt, trained}}, newest);
}

TEST(FirstUnsaved, StateIsSavedByACheckpointOfItsStepOrALaterOne) {
  EXPECT_TRUE(IsSaved(Step(0), {}));
  EXPECT_FALSE(IsSaved(Step(20), {}));
  EXPECT_FALSE(IsSaved(Step(20), {{Step(19), "", {}}}));
  EXPECT_TRUE(IsSaved(Step(20), {{Step(20), "", {}}}));
  EXPECT_TRUE(IsSaved(Step(20), {{Step(21), "", {}}}));
}

// The checkpoint of one that is further holds nothing of the other.
TEST(FirstUnsaved, EachOfSeveralModelsIsSavedByItsOwnCheckpoint) {
  const TrainedSteps trained{{0, Step(1121)}, {1, Step(711)}};
  const auto unsaved = FirstUnsaved(trained, {{Step(1121), "", 0}, {Step(700), "", 1}});
  ASSERT_TRUE(unsaved);
  EXPECT_EQ(unsaved->first, 1);
  EXPECT_EQ(unsaved->second, Step(711));
  EXPECT_FALSE(FirstUnsaved(trained, {{Step(1121), "", 0}, {Step(711), "", 1}}));
}

// A stop of two workers; `codes` are what they ended with.
RunSummary StoppedWith(const std::vector<int>& codes) {
  RunSummary summary;
  for (int index = 0; index < static_cast<int>(codes.size()); ++index) {
    PodRecord pod;
    pod.name = "mnist-worker-" + std::to_string(index);
    pod.task = {Role::kWorker, index};
    pod.exit_code = codes[static_cast<std::size_t>(index)];
    summary.pods.push_back(pod);
  }
  return summary;
}

TEST(WhyUnsaved, WhoeverTriedIsNamedWithTheError) {
  RunSummary summary = StoppedWith({137, 143});
  summary.checkpoints.last_error = "checkpoint of step 12: write a: No space left on device";
  summary.checkpoints.last_error_pod = "mnist-worker-1";
  EXPECT_EQ(WhyUnsaved(summary, kStep12, true),
            ", and the checkpoint could not be written by mnist-worker-1: checkpoint of step 12: "
            "write a: No space left on device");
}

TEST(WhyUnsaved, NobodyIsLeftWhereNoneTried) {
  EXPECT_EQ(WhyUnsaved(StoppedWith({137, 137}), kStep12, false),
            ", and no process was left to save step 12");
  EXPECT_EQ(WhyUnsaved(StoppedWith({42, 137}), TrainedSteps::value_type{1, Step(12)}, false),
            ", and no process was left to save step 12 of model 1");
}

TEST(WhyUnsaved, StrategyThatSavesNothingAtAStopIsNamed) {
  RunSummary summary = StoppedWith({143, 143});
  summary.saves_at_stop = false;
  EXPECT_EQ(WhyUnsaved(summary, kStep12, false),
            ", and step 12 was not saved: ParameterServer writes no checkpoint at a stop");
  summary.checkpoints.last_error = "checkpoint of step 8: No space left on device";
  summary.checkpoints.last_error_pod = "mnist-worker-0";
  EXPECT_EQ(
      WhyUnsaved(summary, kStep12, true),
      ", and step 12 was not saved: ParameterServer writes no checkpoint at a stop; the "
      "newest checkpoint could not be written by mnist-worker-0: checkpoint of step 8: No space "
      "left "
      "on device");
}

TEST(WhyUnsaved, FolderThatCannotBeReadIsNamed) {
  RunSummary summary = StoppedWith({42, 42});
  summary.checkpoints.is_unreadable = true;
  summary.checkpoints.last_error = "checkpoints: Permission denied";
  EXPECT_EQ(WhyUnsaved(summary, kStep12, false),
            ", and it is not known whether step 12 is saved: checkpoints: Permission denied");
}

TEST(WhyUnsaved, WhoeverLeftWithoutAWordMayHaveTried) {
  RunSummary summary = StoppedWith({137, 143});
  summary.pods[1].left_no_word = true;
  EXPECT_EQ(WhyUnsaved(summary, kStep12, false),
            ", and step 12 was not saved; mnist-worker-1 gave no reason");
}

TEST(WhyUnsaved, ThatSomebodyTriedMayBeAllThatIsKnown) {
  EXPECT_EQ(WhyUnsaved(StoppedWith({137, 74}), std::nullopt, true),
            ", and the checkpoint could not be written");
}

}  // namespace
}  // namespace lockstep::control
