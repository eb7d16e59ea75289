#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/cli/summary.h"

namespace lockstep::control {
namespace {

TEST(IsSaved, StateIsSavedByACheckpointOfItsStepOrALaterOne) {
  EXPECT_TRUE(IsSaved(Step(0), std::nullopt));
  EXPECT_FALSE(IsSaved(Step(20), std::nullopt));
  EXPECT_FALSE(IsSaved(Step(20), Step(19)));
  EXPECT_TRUE(IsSaved(Step(20), Step(20)));
  EXPECT_TRUE(IsSaved(Step(20), Step(21)));
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
  EXPECT_EQ(WhyUnsaved(summary, Step(12), true),
            ", and the checkpoint could not be written by mnist-worker-1: checkpoint of step 12: "
            "write a: No space left on device");
}

TEST(WhyUnsaved, NobodyIsLeftWhereNoneTried) {
  EXPECT_EQ(WhyUnsaved(StoppedWith({137, 137}), Step(12), false),
            ", and nobody was left to save step 12");
}

TEST(WhyUnsaved, StrategyThatSavesNothingAtAStopIsNamed) {
  RunSummary summary = StoppedWith({143, 143});
  summary.saves_at_stop = false;
  EXPECT_EQ(WhyUnsaved(summary, Step(12), false),
            ", and step 12 was not saved: under ParameterServer a stop writes no checkpoint");
}

TEST(WhyUnsaved, WhoeverLeftWithoutAWordMayHaveTried) {
  RunSummary summary = StoppedWith({137, 143});
  summary.pods[1].left_no_word = true;
  EXPECT_EQ(WhyUnsaved(summary, Step(12), false),
            ", and step 12 was not saved; mnist-worker-1 left no word why");
}

TEST(WhyUnsaved, ThatSomebodyTriedMayBeAllThatIsKnown) {
  EXPECT_EQ(WhyUnsaved(StoppedWith({137, 74}), Step(12), true),
            ", and the checkpoint could not be written");
}

}  // namespace
}  // namespace lockstep::control
