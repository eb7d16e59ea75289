#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "operator/controller/testing/scripted_cluster.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST_F(ControllerTest, StatusThatOthersWroteIsPutBackThoughNothingIsDecided) {
  cluster_.world.Launch();
  controller_.Notify(kKey, now_);
  Drain();
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain().find("write"), std::string::npos);
  cluster_.world.observed.is_status_foreign = true;
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish StatusOverwritten\n");

  controller_.Notify(kKey, now_);  // the other writer insists
  EXPECT_EQ(Drain(), "read mnist\npublish \n");
  EXPECT_EQ(controller_.NextStep(), now_ + seconds(1));
  now_ += seconds(1);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish \n") << "it is told of once";
}

TEST_F(ControllerTest, WritesThatTheServerRefusesAreToldOfWhereTheStatusCannotTell) {
  const Error denied(ErrorCode::kInvalidArgument, "a policy denies it");
  cluster_.write_status = denied;
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish StatusRefused\n");
  EXPECT_EQ(controller_.refused_statuses(),
            (std::map<JobId, std::string>{{kKey, "a policy denies it"}}));

  cluster_.write_status = OkStatus();
  cluster_.world.Launch();
  cluster_.world.job.spec.run_policy.suspend = true;
  cluster_.effect_status = denied;
  now_ += seconds(60);
  controller_.Notify(kKey, now_);
  const std::string said = Drain();
  EXPECT_NE(said.find("delete pod mnist-worker-0"), std::string::npos) << said;
  EXPECT_NE(said.find("publish DeletionRefused\n"), std::string::npos) << said;
  EXPECT_TRUE(controller_.refused_statuses().empty());
}

class PositionTest : public ControllerTest {
 protected:
  PositionTest() {
    controller_ = Controller(&cluster_,
                             logger_.get(),
                             Calendar(now_, WallTime(seconds(1'000'000))),
                             {.words_interval = seconds(10)});
    cluster_.world.observed.round = Unschedulable{Constraint::kGpu, "needs 3 GPUs, 1 free"};
    Stand(2, std::nullopt);
    Drain();
  }

  void Stand(int64_t position, std::optional<WallTime> start) {
    cluster_.world.observed.queue_position = QueuePosition{"vision", position, start};
    controller_.Notify(kKey, now_);
  }
};

TEST_F(PositionTest, MoveInTheQueueAloneIsWrittenNowAndThen) {
  Stand(1, std::nullopt);
  EXPECT_EQ(Drain(), "read mnist\npublish \n");
  Stand(1, WallTime(seconds(1'000'020)));
  EXPECT_EQ(Drain(), "read mnist\npublish \n");

  now_ += seconds(10);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish \n");
  EXPECT_EQ(cluster_.world.job.status.queue,
            (QueuePosition{"vision", 1, WallTime(seconds(1'000'020))}));
}

TEST_F(PositionTest, ItGoesWithWhatElseIsNew) {
  cluster_.world.observed.round = Unschedulable{Constraint::kGpu, "needs 3 nodes, 2 there are"};
  Stand(1, std::nullopt);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish Unschedulable\n");
  EXPECT_EQ(cluster_.world.job.status.queue->position, 1);
}

class ReplacementTest : public ControllerTest {
 protected:
  ReplacementTest() : ControllerTest(MakeTrainingJob(3)) {
    cluster_.world.observed.service = ServiceState::kReady;
    cluster_.world.Launch();
    cluster_.world.Exit("mnist-worker-1", 137);
    controller_.Notify(kKey, now_);
  }

  // Whether the turn has to be repeated because `effect` fails.
  bool IsRepeatedFor(const std::string& effect) {
    cluster_.failing_effect = effect;
    const std::vector<TurnReport> turns = controller_.Step(now_);
    EXPECT_EQ(turns.size(), 1U);
    EXPECT_NE(cluster_.log.find(effect + "\n"), std::string::npos) << cluster_.log;
    return turns.front().result == TurnResult::kFailed;
  }
};

TEST_F(ReplacementTest, KeyThatCannotBeRenewedBesideItConcernsNobody) {
  EXPECT_FALSE(IsRepeatedFor("renew the key"));
}

TEST_F(ReplacementTest, PodThatCannotBeCreatedIsTriedAgain) {
  EXPECT_TRUE(IsRepeatedFor("create pod mnist-worker-1-r1 on node node-a"));
}

// Keeps warnings.
class NotingLogger final : public Logger {
 public:
  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    if (level == LogLevel::kWarn) {
      warnings += FormatLogText(message, fields) + "\n";
    }
  }

  std::string warnings;
};

TEST(FailedEffects, GangThatIsRefusedIsOneLineATry) {
  ScriptedCluster cluster(MakeTrainingJob(3));
  NotingLogger logger;
  const TimePoint now{seconds(1000)};
  Controller controller(&cluster, &logger, Calendar(now, WallTime(seconds(1'000'000))));
  cluster.effect_status = Error(ErrorCode::kResourceExhausted, "exceeded quota");
  controller.Notify(kKey, now);
  controller.Step(now);
  EXPECT_EQ(logger.warnings.find("actions for the job failed"), 0U) << logger.warnings;
  EXPECT_EQ(std::count(logger.warnings.begin(), logger.warnings.end(), '\n'), 1);
  EXPECT_NE(logger.warnings.find(" count=3 "), std::string::npos) << logger.warnings;
  EXPECT_NE(logger.warnings.find("exceeded quota"), std::string::npos) << logger.warnings;
}

}  // namespace
}  // namespace lockstep::control
