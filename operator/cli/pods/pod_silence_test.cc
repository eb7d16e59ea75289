#include "operator/cli/pods/pod_silence.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PodSilenceTest : public ::testing::Test {
 protected:
  // So many questions to the pod, of half a second each.
  void Ask(int count, const StatusPoller::Finding& finding) {
    for (int i = 0; i < count; ++i) {
      now_ += milliseconds(500);
      silence_.Note("a", finding, now_);
    }
  }

  // It listens, and says nothing.
  void TimeOut(int count) {
    for (int i = 1; i <= count; ++i) {
      StatusPoller::Finding finding;
      finding.unanswered = i;
      Ask(1, finding);
    }
  }

  // Nobody listens.
  void Refuse(int count) {
    StatusPoller::Finding finding;
    finding.is_closed = true;
    Ask(count, finding);
  }

  void Answer() {
    StatusPoller::Finding finding;
    finding.document.emplace();
    Ask(1, finding);
  }

  TimePoint now_;
  PodSilence silence_;
};

TEST_F(PodSilenceTest, TenQuestionsInARowThatRunOutOfTimeAreMute) {
  silence_.Keep({{"a", true}}, 2);
  Answer();
  TimeOut(9);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
  TimeOut(10);
  EXPECT_THAT(silence_.Mute(), ElementsAre("a"));
}

TEST_F(PodSilenceTest, PodWhoseProcessGetsNoCoreIsGivenItsWholeExcuse) {
  silence_.Keep({{"a", true}}, 2);
  Answer();
  TimeOut(3);
  ASSERT_TRUE(silence_.IsSilent("a"));
  silence_.See("a", Sight::kStarved);
  TimeOut(59);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
  TimeOut(60);
  EXPECT_THAT(silence_.Mute(), ElementsAre("a"));
}

TEST_F(PodSilenceTest, PodWhoseProcessIsStoppedIsMuteAtOnce) {
  silence_.Keep({{"a", true}}, 2);
  Answer();
  TimeOut(3);
  silence_.See("a", Sight::kStopped);
  EXPECT_THAT(silence_.Mute(), ElementsAre("a"));
  Answer();
  TimeOut(3);
  EXPECT_THAT(silence_.Mute(), IsEmpty()) << "it was looked at in an earlier silence";
}

TEST_F(PodSilenceTest, OneOfManyPodsOnFewCoresIsWaitedForLonger) {
  std::map<std::string, bool> many = {{"a", true}};
  for (int i = 0; i < 99; ++i) {
    many["b" + std::to_string(i)] = true;
  }
  silence_.Keep(many, 2);
  Answer();
  TimeOut(59);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
}

// It may only be short of a core: many pods start at once.
TEST_F(PodSilenceTest, PodThatListensAndHasNotAnsweredYetIsGivenItsWholeStart) {
  silence_.Keep({{"a", true}}, 2);
  TimeOut(60);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
  TimeOut(1);
  EXPECT_THAT(silence_.Mute(), ElementsAre("a"));
}

TEST_F(PodSilenceTest, PodThatNeverListensIsMuteAfterItsStart) {
  silence_.Keep({{"a", true}}, 2);
  Refuse(60);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
  Refuse(1);
  EXPECT_THAT(silence_.Mute(), ElementsAre("a"));
}

TEST_F(PodSilenceTest, TimeInWhichNobodyAskedDoesNotCount) {
  silence_.Keep({{"a", true}}, 2);
  Refuse(1);
  now_ += std::chrono::hours(1);  // stopped with ^Z
  Refuse(1);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
}

TEST_F(PodSilenceTest, NothingIsExpectedOfAProgramWithoutRuntime) {
  silence_.Keep({{"a", false}}, 2);
  Refuse(100);
  TimeOut(10);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
}

// It has ended, or is about to: that is for others to find out.
TEST_F(PodSilenceTest, PodThatHasAnsweredMayCloseItsPort) {
  silence_.Keep({{"a", true}}, 2);
  Answer();
  Refuse(100);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
}

TEST_F(PodSilenceTest, PodThatIsNotAskedAnyMoreIsForgotten) {
  silence_.Keep({{"a", true}}, 2);
  Answer();
  TimeOut(10);
  ASSERT_THAT(silence_.Mute(), ElementsAre("a"));
  silence_.Keep({}, 2);
  EXPECT_THAT(silence_.Mute(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
