#include "trainer-runtime/engine/capture_policy.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A story: a letter for each step. a, b, c: steps of 8, 16 and 24 samples with an update; A: of 8
// without; l: of 8 with two buckets summed beside, n: with other two; 0: of none; m: not a step,
// what is captured moves. What is answered: e(ager), C(aptured), r(eplayed); captures succeed
// unless `fails`.
std::string Play(CapturePolicy* policy, const std::string& story, bool fails = false) {
  std::string answers;
  for (const char step : story) {
    if (step == 'm') {
      policy->Forget();
      answers += 'm';
      continue;
    }
    StepShape shape{8, true};
    if (step == 'b' || step == 'c') {
      shape.sample_count = step == 'b' ? 16 : 24;
    } else if (step == '0') {
      shape.sample_count = 0;
    } else if (step == 'A') {
      shape.has_update = false;
    } else if (step == 'l' || step == 'n') {
      shape.ready_at = {step == 'l' ? 40 : 30, 0};
    }
    switch (policy->Next(shape)) {
      case StepWay::kEager:
        answers += 'e';
        break;
      case StepWay::kReplay:
        answers += 'r';
        break;
      case StepWay::kCapture:
        answers += 'C';
        if (fails) {
          policy->Failed(Error(ErrorCode::kInternal, "no memory"));
        } else {
          policy->Captured();
        }
        break;
    }
  }
  return answers;
}

std::vector<std::string> NoticesOf(CapturePolicy* policy) {
  std::vector<std::string> notices;
  while (auto notice = policy->TakeNotice()) {
    notices.push_back(*notice);
  }
  return notices;
}

TEST(CapturePolicy, StoriesGoAsTheTableSays) {
  struct Story {
    std::string steps;
    std::string ways;
  };

  const std::vector<Story> stories = {
      {"aaaaaa", "eeeCrr"},
      {"aabaaaa", "eeeeeeC"},          // a row is a row
      {"aaaabaaab", "eeeCerrre"},      // the last batch of each data epoch
      {"aaaabbbbbba", "eeeCeeeCrre"},  // the batch has changed for good
      {"aaaaAAAAa", "eeeCeeeCe"},      // an update is other work
      {"llllll", "eeeCrr"},            // the graph holds where buckets are ready
      {"llllnnnnl", "eeeCeeeCe"},      // other buckets are other work
      {"aalaaaa", "eeeeeeC"},
      {"aaaalaa", "eeeCerr"},
      {"aa0aa", "eeeeC"},  // nothing to be done is no work
      {"aaaaamaaaaa", "eeeCrmeeeCr"},
      {"aaaababababab", "eeeCerererere"},  // turns are never captured
  };
  for (const Story& story : stories) {
    CapturePolicy policy;
    EXPECT_EQ(Play(&policy, story.steps), story.ways) << story.steps;
  }
}

TEST(CapturePolicy, CaptureThatFailsIsNeverTriedAgainAndToldOnce) {
  CapturePolicy policy;
  EXPECT_EQ(Play(&policy, "aaaa", /*fails=*/true), "eeeC");
  EXPECT_EQ(Play(&policy, "aaaaabbbbbbb"), "eeeeeeeeeeee");
  EXPECT_THAT(NoticesOf(&policy), ElementsAre("steps are not captured as a CUDA graph: no memory"));
}

TEST(CapturePolicy, StepsThatChangeForEverAreGivenUp) {
  CapturePolicy policy;
  for (int i = 0; i < CapturePolicy::kCapturesMax / 2; ++i) {
    EXPECT_EQ(Play(&policy, "aaaabbbb"), i == 0 ? "eeeCeeeC" : "eeeCeeeC");
  }
  EXPECT_TRUE(policy.needs_graph());
  EXPECT_EQ(Play(&policy, "aaaaaaaabb"), "eeeeeeeeee");
  EXPECT_FALSE(policy.needs_graph());
  EXPECT_THAT(NoticesOf(&policy).back(), HasSubstr("changed 16 times"));
}

TEST(CapturePolicy, EachThingIsToldOnce) {
  CapturePolicy policy;
  Play(&policy, "aaa");
  EXPECT_THAT(NoticesOf(&policy), IsEmpty());
  Play(&policy, "aaabaabaclalnn");
  EXPECT_THAT(
      NoticesOf(&policy),
      ElementsAre(
          "steps with 8 samples run as one CUDA graph",
          "a step with 16 samples does not use the CUDA graph, which was captured with 8 samples"));
}

TEST(CapturePolicy, StepsAreToldApartByTheirBuckets) {
  CapturePolicy policy;
  Play(&policy, "lllla");
  EXPECT_THAT(NoticesOf(&policy),
              ElementsAre("steps with 8 samples in 2 buckets run as one CUDA graph",
                          "a step with 8 samples does not use the CUDA graph, which was captured "
                          "with 8 samples in 2 buckets"));
}

}  // namespace
}  // namespace lockstep::runtime
