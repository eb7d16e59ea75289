#include "operator/cli/run/chaos.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/cli/testing/run_moments.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const TaskId kChief{Role::kChief, 0};

ChaosAction ParseOne(const std::string& text) {
  auto actions = ParseChaos(text);
  EXPECT_TRUE(actions.ok()) << actions.error().ToString();
  if (!actions.ok() || actions->size() != 1) {
    return ChaosAction();
  }
  return actions->front();
}

struct GoodCase {
  const char* text;
  ChaosAction action;
};

class ChaosGrammar : public ::testing::TestWithParam<GoodCase> {};

TEST_P(ChaosGrammar, ActionIsRead) {
  ChaosAction expected = GetParam().action;
  expected.text = GetParam().text;
  EXPECT_EQ(ParseOne(GetParam().text), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ChaosGrammar,
    ::testing::Values(
        GoodCase{"kill=worker-1@step=60", {ChaosKind::kKill, 0, {kWorker1}, ChaosAtStep{60}, ""}},
        GoodCase{"stop=worker-1@step=0", {ChaosKind::kStop, 0, {kWorker1}, ChaosAtStep{0}, ""}},
        GoodCase{"exit=3:worker-1@step=60", {ChaosKind::kExit, 3, {kWorker1}, ChaosAtStep{60}, ""}},
        GoodCase{"exit=137@worker-1@step=60",
                 {ChaosKind::kExit, 137, {kWorker1}, ChaosAtStep{60}, ""}},
        GoodCase{"kill=worker-0+worker-1@step=5",
                 {ChaosKind::kKill, 0, {kWorker0, kWorker1}, ChaosAtStep{5}, ""}},
        GoodCase{"kill=chief-0@time=2.5s",
                 {ChaosKind::kKill, 0, {kChief}, ChaosAtTime{milliseconds(2500)}, ""}},
        GoodCase{"kill=chief-0@time=250ms",
                 {ChaosKind::kKill, 0, {kChief}, ChaosAtTime{milliseconds(250)}, ""}},
        GoodCase{"kill=chief-0@time=2m",
                 {ChaosKind::kKill, 0, {kChief}, ChaosAtTime{seconds(120)}, ""}},
        GoodCase{"kill=chief-0@time=3",
                 {ChaosKind::kKill, 0, {kChief}, ChaosAtTime{seconds(3)}, ""}},
        GoodCase{"kill=worker-0@phase=checkpointing",
                 {ChaosKind::kKill, 0, {kWorker0}, ChaosAtPhase{Phase::kCheckpointing}, ""}}));

struct BadCase {
  const char* text;
  const char* message;
};

class ChaosMistake : public ::testing::TestWithParam<BadCase> {};

TEST_P(ChaosMistake, IsNamedWithWhatWasExpected) {
  const auto actions = ParseChaos(GetParam().text);
  ASSERT_FALSE(actions.ok()) << GetParam().text;
  EXPECT_EQ(actions.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(actions.error().message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ChaosMistake,
    ::testing::Values(
        BadCase{"", "expected \"kill=\", \"stop=\" or \"exit=CODE:\" at the start, found \"\""},
        BadCase{"kil=worker-1@step=1", "found \"kil\""},
        BadCase{"kill", "expected \"=\" and a pod after \"kill\""},
        BadCase{"kill=worker-1", "expected @step=N, @time=DURATION or @phase=NAME"},
        BadCase{"kill=@step=1", "expected a pod such as worker-1, found \"\""},
        BadCase{"kill=worker@step=1", "found \"worker\""},
        BadCase{"kill=worker--1@step=1", "found \"worker--1\""},
        BadCase{"kill=boss-1@step=1", "found \"boss-1\""},
        BadCase{"kill=worker-1+worker-1@step=1", "\"worker-1\" is named twice"},
        BadCase{"kill=worker-1@step=", "found \"@step=\""},
        BadCase{"kill=worker-1@step=-1", "found \"@step=-1\""},
        BadCase{"kill=worker-1@step=6x", "found \"@step=6x\""},
        BadCase{"kill=worker-1@time=nan", "found \"@time=nan\""},
        BadCase{"kill=worker-1@time=-1s", "found \"@time=-1s\""},
        BadCase{"kill=worker-1@phase=lunch", "found \"@phase=lunch\""},
        BadCase{"kill=worker-1@moon=full", "found \"@moon=full\""},
        BadCase{"exit=worker-1@step=1", "expected an exit code from 0 to 255"},
        BadCase{"exit=256:worker-1@step=1", "found \"256\""},
        BadCase{"kill=worker-1@step=1,", "--chaos \"\""}));

TEST(ParseChaos, CommasSeparateActions) {
  const auto actions = ParseChaos("kill=worker-1@step=1,stop=worker-0@time=1s");
  ASSERT_TRUE(actions.ok());
  ASSERT_EQ(actions->size(), 2U);
  EXPECT_EQ((*actions)[1].kind, ChaosKind::kStop);
}

TEST(CheckChaosTargets, UnknownPodIsRefusedWithThePodsOfTheJob) {
  const Status checked =
      CheckChaosTargets({ParseOne("kill=worker-7@step=1")}, {kWorker0, kWorker1});
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message(),
              HasSubstr("the job has no pod worker-7, its pods are worker-0, worker-1"));
}

TEST(ChaosSchedule, StepActionFiresOnceWhenTheStepIsReached) {
  ChaosSchedule schedule({ParseOne("kill=worker-1@step=60")});
  ChaosView view;
  view.running_tasks = {kWorker1};
  view.step = 59;
  EXPECT_TRUE(schedule.TakeDue(view).empty());
  view.step = 61;
  EXPECT_EQ(schedule.TakeDue(view).size(), 1U);
  EXPECT_TRUE(schedule.TakeDue(view).empty());
  EXPECT_TRUE(schedule.empty());
}

TEST(ChaosSchedule, ActionWaitsUntilAllTargetsRun) {
  ChaosSchedule schedule({ParseOne("kill=worker-0+worker-1@step=1")});
  ChaosView view;
  view.step = 5;
  view.running_tasks = {kWorker1};
  EXPECT_TRUE(schedule.TakeDue(view).empty());
  view.running_tasks = {kWorker0, kWorker1};
  EXPECT_EQ(schedule.TakeDue(view).size(), 1U);
}

TEST(ChaosSchedule, TimeCountsFromTheFirstMomentAllPodsRun) {
  ChaosSchedule schedule({ParseOne("kill=worker-1@time=0s")});
  ChaosView view;
  view.running_tasks = {kWorker1};
  EXPECT_TRUE(schedule.TakeDue(view).empty());
  view.running = Duration::zero();
  EXPECT_EQ(schedule.TakeDue(view).size(), 1U);
}

TEST(ChaosSchedule, PhaseIsTheTargetsOwn) {
  ChaosSchedule schedule({ParseOne("kill=worker-1@phase=rendezvous")});
  ChaosView view;
  view.running_tasks = {kWorker0, kWorker1};
  view.phases = {{kWorker0, Phase::kRendezvous}, {kWorker1, Phase::kStarting}};
  EXPECT_TRUE(schedule.TakeDue(view).empty());
  view.phases[kWorker1] = Phase::kRendezvous;
  EXPECT_EQ(schedule.TakeDue(view).size(), 1U);
}

TEST(CheckChaosTriggers, CommandNeverComesToAStep) {
  const auto actions = ParseChaos("kill=worker-0@time=1s,kill=worker-1@step=5").value();
  EXPECT_TRUE(CheckChaosTriggers(actions, true).ok());
  const Status refused = CheckChaosTriggers(actions, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "--chaos kill=worker-1@step=5: the job runs a command, which may not report steps; use "
            "@time=DURATION or @phase=NAME");
}

}  // namespace
}  // namespace lockstep::control
