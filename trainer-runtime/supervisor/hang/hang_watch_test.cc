#include "trainer-runtime/supervisor/hang/hang_watch.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr seconds kLimit{20};  // a look each second

TimePoint AfterBegin(Duration since_begin) {
  return TimePoint(std::chrono::hours(5)) + since_begin;
}

ProcessActivity Idle(pid_t pid = 7) {
  ProcessActivity activity;
  activity.is_running = true;
  activity.cpu = {{pid, seconds(3)}};
  return activity;
}

class HangWatchTest : public testing::Test {
 protected:
  // Looks each second, the last time after `until`; `change` says what is seen. Returns what the
  // first look that finds anything finds, and when that is.
  template <typename Change>
  std::vector<HungProcess> LookUntil(seconds until, const Change& change) {
    for (; second_ <= until; second_ += seconds(1)) {
      change(second_);
      const std::vector<HungProcess> hung = watch_.Look(AfterBegin(second_), seen_);
      if (!hung.empty()) {
        return hung;
      }
    }
    return {};
  }

  HangWatch watch_{kLimit, 2};
  std::vector<ProcessActivity> seen_ = {Idle(7), Idle(8)};
  seconds second_{0};
};

TEST_F(HangWatchTest, OneThatDoesNothingIsToldTwoLooksAfterTheLimit) {
  const auto hung =
      LookUntil(seconds(100), [&](seconds now) { seen_[0].output_bytes = now.count(); });
  EXPECT_THAT(hung, ElementsAre(HungProcess{1, false, kLimit + seconds(2)}));
  EXPECT_EQ(second_, kLimit + seconds(2));
}

TEST_F(HangWatchTest, AStoppedOneIsToldAtTheLimit) {
  seen_[1].is_stopped = true;
  const auto hung =
      LookUntil(seconds(100), [&](seconds now) { seen_[0].output_bytes = now.count(); });
  EXPECT_THAT(hung, ElementsAre(HungProcess{1, true, kLimit}));
}

TEST_F(HangWatchTest, EachSignOfLifeCounts) {
  const std::vector<std::function<void(ProcessActivity*)>> signs = {
      [](ProcessActivity* one) { ++one->output_bytes; },
      [](ProcessActivity* one) { ++one->report_count; },
      [](ProcessActivity* one) { one->cpu.begin()->second += milliseconds(31); },
      [](ProcessActivity* one) { one->cpu[99] = Duration(0); },  // began
      [](ProcessActivity* one) {
        one->cpu = {{one->cpu.begin()->first + 1, seconds(3)}};
      },  // other
      [](ProcessActivity* one) { one->is_running = false; },
      [](ProcessActivity* one) { one->is_held_up = true; },
  };
  for (std::size_t i = 0; i < signs.size(); ++i) {
    HangWatch watch(kLimit, 1);
    std::vector<ProcessActivity> seen = {Idle()};
    for (seconds now{0}; now <= kLimit; now += seconds(1)) {
      if (now == seconds(15)) {
        signs[i](&seen[0]);
      }
      EXPECT_THAT(watch.Look(AfterBegin(now), seen), IsEmpty())
          << "sign " << i << " at " << now.count();
      if (now == seconds(15)) {
        seen[0].is_running = true;
        seen[0].is_held_up = false;
      }
    }
    EXPECT_THAT(watch.Look(AfterBegin(kLimit + seconds(2)), seen), IsEmpty()) << "sign " << i;
  }
}

TEST_F(HangWatchTest, AHeartbeatThreadsProcessorTimeIsNoSignOfLife) {
  const auto hung = LookUntil(seconds(100), [&](seconds now) {
    seen_[0].output_bytes = now.count();
    seen_[1].cpu.begin()->second += milliseconds(9);  // each second
  });
  EXPECT_THAT(hung, ElementsAre(HungProcess{1, false, kLimit + seconds(2)}));
}

// On a busy machine what they take is not the same in each look.
TEST_F(HangWatchTest, AHeartbeatThreadsProcessorTimeMayComeInLumps) {
  const auto hung = LookUntil(seconds(100), [&](seconds now) {
    seen_[0].output_bytes = now.count();
    seen_[1].cpu.begin()->second += milliseconds(now.count() % 10 == 3 ? 25 : 4);
  });
  EXPECT_THAT(hung, ElementsAre(HungProcess{1, false, kLimit + seconds(2)}));
}

// The kernel's word for 4 ms of a second.
TEST(HangWatch, ATickOfProcessorTimeIsNoSignOfLifeForAShortLimit) {
  constexpr milliseconds kShort{5000};
  HangWatch watch(kShort, 1);
  ASSERT_EQ(watch.interval(), milliseconds(250));
  std::vector<ProcessActivity> seen = {Idle()};
  Duration now{0};
  for (int look = 0; watch.Look(AfterBegin(now), seen).empty(); ++look) {
    ASSERT_LT(now, 3 * kShort);
    seen[0].cpu.begin()->second += milliseconds(look % 10 == 9 ? 10 : 0);
    now += watch.interval();
  }
  EXPECT_EQ(now, kShort + milliseconds(500));
}

TEST_F(HangWatchTest, OneThatUsesALittleMoreAllTheTimeWorks) {
  const auto hung = LookUntil(seconds(100), [&](seconds) {
    for (ProcessActivity& one : seen_) {
      one.cpu.begin()->second += milliseconds(13);
    }
  });
  EXPECT_THAT(hung, IsEmpty());
}

// Of a pod with a small share of a node that is full.
TEST_F(HangWatchTest, OneThatWaitsForACoreAtEachLookIsStarvedAndDoesNotHang) {
  const auto hung = LookUntil(seconds(100), [&](seconds now) {
    seen_[0].is_ready = true;
    seen_[1].is_ready = now.count() % 2 == 0;  // by chance, as one that sleeps in short turns
  });
  EXPECT_THAT(hung, ElementsAre(HungProcess{1, false, kLimit + seconds(2)}));
}

// A laptop that slept, a pod whose cgroup was frozen: nobody has hung meanwhile.
TEST_F(HangWatchTest, AWatcherThatWasHeldUpItselfBeginsAnew) {
  EXPECT_THAT(LookUntil(seconds(10), [](seconds) {}), IsEmpty());
  second_ = seconds(1000);
  EXPECT_THAT(LookUntil(seconds(1019), [](seconds) {}), IsEmpty());
  EXPECT_THAT(LookUntil(seconds(1100), [](seconds) {}), testing::SizeIs(2));
}

// Rank 1 stops working; rank 0 waits for it some seconds later: both are over the limit by then, or
// soon will be.
TEST_F(HangWatchTest, ThoseThatWaitForOneAreToldWithItAndItIsBlamed) {
  const auto hung = LookUntil(seconds(100), [&](seconds now) {
    seen_[0].output_bytes = std::min<int64_t>(now.count(), 2);
  });
  ASSERT_THAT(hung, ElementsAre(HungProcess{0, false, kLimit}, HungProcess{1, false, seconds(22)}));
  EXPECT_EQ(CulpritsAmong(hung, watch_.interval()), hung) << "two looks do not tell them apart";
}

TEST(CulpritsAmong, AreTheStoppedElseTheOneThatIsIdleForLongestElseAll) {
  const HungProcess longest{0, false, seconds(30)};
  const HungProcess later{1, false, seconds(27)};
  const HungProcess same{2, false, seconds(28)};
  const HungProcess stopped{3, true, seconds(20)};
  EXPECT_THAT(CulpritsAmong({}, seconds(1)), IsEmpty());
  EXPECT_THAT(CulpritsAmong({later}, seconds(1)), ElementsAre(later));
  EXPECT_THAT(CulpritsAmong({later, longest}, seconds(1)), ElementsAre(longest));
  EXPECT_THAT(CulpritsAmong({later, longest, same}, seconds(1)), ElementsAre(later, longest, same));
  EXPECT_THAT(CulpritsAmong({longest, later, stopped}, seconds(1)), ElementsAre(stopped));
}

TEST(HangWatch, LooksTwentyTimesWithinTheLimitButNotTooOften) {
  EXPECT_EQ(HangWatch(seconds(60), 1).interval(), seconds(3));
  EXPECT_EQ(HangWatch(milliseconds(200), 1).interval(), milliseconds(50));
  EXPECT_EQ(HangWatch(std::chrono::hours(1), 1).interval(), seconds(5));
}

}  // namespace
}  // namespace lockstep::runtime
