#include "operator/controller/controller.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/controller/testing/scripted_cluster.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(ControllerTest, StatusIsWrittenFirstAndPublishedBeforeWhatMayTakeLong) {
  controller_.Notify(kKey, now_);

  EXPECT_EQ(Drain(),
            "read mnist\n"
            "write\n"
            "publish JobCreated GangPlaced\n"
            "create pod mnist-worker-0 on node node-a\n");
}

TEST_F(ControllerTest, NothingIsDoneOrSaidWhenTheStatusIsNotAccepted) {
  cluster_.write_status = Error(ErrorCode::kStale, "somebody else wrote the job");
  controller_.Notify(kKey, now_);

  EXPECT_EQ(Drain(), "read mnist\nwrite\n");
}

TEST_F(ControllerTest, RefusedWriteIsFollowedByAFreshPass) {
  cluster_.write_status = Error(ErrorCode::kStale, "somebody else wrote the job");
  controller_.Notify(kKey, now_);
  Drain();
  cluster_.write_status = OkStatus();
  now_ += milliseconds(100);

  EXPECT_EQ(Drain(),
            "read mnist\n"
            "write\n"
            "publish JobCreated GangPlaced\n"
            "create pod mnist-worker-0 on node node-a\n");
}

TEST_F(ControllerTest, UnchangedStatusIsNotWritten) {
  cluster_.world.Launch();
  controller_.Notify(kKey, now_);

  EXPECT_EQ(Drain(), "read mnist\npublish \n");
}

TEST_F(ControllerTest, FailedPassesAreRepeatedEverMoreSlowly) {
  cluster_.read_status = Error(ErrorCode::kUnavailable, "no answer");
  controller_.Notify(kKey, now_);
  std::vector<milliseconds> delays;
  for (int i = 0; i < 12; ++i) {
    Drain();
    const TimePoint next = controller_.NextStep().value();
    delays.push_back(std::chrono::duration_cast<milliseconds>(next - now_));
    now_ = next;
  }

  EXPECT_EQ(delays[0], milliseconds(100));
  EXPECT_EQ(delays[1], milliseconds(200));
  EXPECT_EQ(delays[8], milliseconds(25'600));
  EXPECT_EQ(delays[11], seconds(30));
}

TEST_F(ControllerTest, SuccessForgetsEarlierFailures) {
  cluster_.read_status = Error(ErrorCode::kUnavailable, "no answer");
  controller_.Notify(kKey, now_);
  Drain();
  now_ += milliseconds(100);
  Drain();
  cluster_.read_status = OkStatus();
  now_ += milliseconds(200);
  Drain();
  cluster_.read_status = Error(ErrorCode::kUnavailable, "no answer");
  controller_.Notify(kKey, now_);
  Drain();

  EXPECT_EQ(controller_.NextStep(), now_ + milliseconds(100));
}

TEST_F(ControllerTest, JobThatIsGoneIsForgotten) {
  cluster_.read_status = Error(ErrorCode::kNotFound, "no such job");
  controller_.Notify(kKey, now_);
  Drain();

  EXPECT_EQ(controller_.NextStep(), std::nullopt);
}

TEST_F(ControllerTest, ExistingPodCountsAsCreatedAndAFailedCreateDoesNot) {
  cluster_.effect_status = Error(ErrorCode::kAlreadyExists, "it is there");
  controller_.Notify(kKey, now_);
  Drain();
  EXPECT_EQ(controller_.NextStep(), now_ + seconds(1));  // until the pod appears

  cluster_.effect_status = Error(ErrorCode::kUnavailable, "no answer");
  controller_.Notify(kKey, now_);
  Drain();
  EXPECT_EQ(controller_.NextStep(), now_ + milliseconds(100));
}

TEST_F(ControllerTest, ManyNotificationsMakeOneTurn) {
  for (int i = 0; i < 5; ++i) {
    controller_.Notify(kKey, now_);
  }
  EXPECT_EQ(controller_.Step(now_).size(), 1U);

  EXPECT_TRUE(controller_.Step(now_).empty());
}

TEST_F(ControllerTest, BusyJobDoesNotStarveAnother) {
  controller_ = Controller(
      &cluster_, logger_.get(), Calendar(now_, WallTime(seconds(1'000'000))), {.jobs_at_once = 1});
  cluster_.read_status = Error(ErrorCode::kNotFound, "no such job");
  const JobId other{"default", "zebra"};
  controller_.Notify(kKey, now_);
  controller_.Notify(other, now_);
  controller_.Step(now_);
  controller_.Notify(kKey, now_);
  controller_.Step(now_);

  EXPECT_EQ(cluster_.log, "read mnist\nread zebra\n");
}

TEST_F(ControllerTest, JobsThatAreDueTogetherAreDecidedBeforeAnyIsActedFor) {
  controller_.Notify(kKey, now_);
  controller_.Notify({"default", "zebra"}, now_);
  EXPECT_EQ(controller_.Step(now_).size(), 2U);

  EXPECT_EQ(cluster_.log,
            "read mnist\n"
            "write\n"
            "read zebra\n"
            "publish \n"
            "create pod mnist-worker-0 on node node-a\n"
            "publish JobCreated GangPlaced\n"
            "create pod mnist-worker-0 on node node-a\n");
}

TEST_F(ControllerTest, NewsThatMayWaitJoinsWhatIsUrgent) {
  cluster_.world.Launch();
  controller_.NotifyAt(kKey, now_ + milliseconds(50));
  EXPECT_EQ(controller_.NextStep(), now_ + milliseconds(50));
  EXPECT_EQ(Drain(), "");
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\npublish \n");

  now_ += milliseconds(50);
  EXPECT_EQ(Drain(), "");
}

TEST_F(ControllerTest, PassReportsWhatItLeftBehind) {
  controller_.Notify(kKey, now_);
  EXPECT_EQ(controller_.Step(now_).at(0).result, TurnResult::kWaiting);  // for the pod to appear
  cluster_.read_status = Error(ErrorCode::kUnavailable, "no answer");
  controller_.Notify(kKey, now_);
  EXPECT_EQ(controller_.Step(now_).at(0).result, TurnResult::kFailed);
  cluster_.read_status = Error(ErrorCode::kNotFound, "no such job");
  controller_.Notify(kKey, now_);
  EXPECT_EQ(controller_.Step(now_).at(0).result, TurnResult::kDone);
}

TEST_F(ControllerTest, JobThatCannotBeReadAndWasNeverTakenUpFailsOnce) {
  cluster_.world.observed.job_problem = "spec.strategy: \"Guess\" found";
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish InvalidJob\n");
  EXPECT_TRUE(IsTrue(cluster_.world.job.status, ConditionType::kFailed));

  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\npublish \n");
}

// The definition is upgraded before the operator, and gives its new fields their defaults.
TEST_F(ControllerTest, NewJobWithFieldsOfANewerVersionWaitsForThatVersion) {
  cluster_.world.observed.job_problem = "spec.color: unknown field, expected one of size";
  cluster_.world.observed.is_job_newer = true;
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish Unreadable\n");
  EXPECT_FALSE(HasEnded(cluster_.world.job.status));
  EXPECT_EQ(StateWord(cluster_.world.job.status), "Stalled");
  EXPECT_NE(MessageOf(cluster_.world.job.status, ConditionType::kStalled).find("spec.color"),
            std::string::npos);

  cluster_.world.observed.job_problem.clear();
  cluster_.world.observed.is_job_newer = false;
  controller_.Notify(kKey, now_);
  Drain();
  EXPECT_EQ(StateWord(cluster_.world.job.status), "Starting");
}

// A newer version may have written it. Its pods run on, and are not even asked how they are.
TEST_F(ControllerTest, JobThatCannotBeReadIsLeftAsItIsAndSaysSo) {
  cluster_.world.Launch();
  cluster_.world.observed.job_problem = "spec.strategy: \"Guess\" found";
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(),
            "read mnist\n"
            "write\n"
            "publish Unreadable\n");
  EXPECT_FALSE(HasEnded(cluster_.world.job.status));
  EXPECT_EQ(StateWord(cluster_.world.job.status), "Stalled");

  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\npublish \n");

  cluster_.world.observed.job_problem.clear();
  controller_.Notify(kKey, now_);
  Drain();
  EXPECT_FALSE(IsTrue(cluster_.world.job.status, ConditionType::kStalled));
}

// Answers when the test says so.
class SlowCluster final : public Cluster {
 public:
  explicit SlowCluster(TrainingJob job) : world_(std::move(job)) {}

  void StartLook(const JobId& key) override { Start("look at ", key); }

  void Ask(const JobId& /*key*/) override {}

  Result<JobSight> See(const JobId& /*key*/) const override {
    return JobSight{world_.job, world_.observed};
  }

  void StartStatusWrite(const JobId& key, const TrainingJob& /*job*/) override {
    Start("write ", key);
  }

  void StartEffects(const JobId& key,
                    const TrainingJob& /*job*/,
                    const std::vector<Effect>& effects) override {
    Start("act for ", key);
    effect_count_ = effects.size();
  }

  std::vector<ClusterAnswer> TakeAnswers() override { return std::exchange(answers_, {}); }

  void Abandon() override { answers_.clear(); }

  void Publish(const JobId& key, const Decision& /*decision*/) override {
    log += "publish " + key.name + "\n";
  }

  void Answer(const JobId& key, std::size_t count = 1) {
    answers_.push_back({key, std::vector<Status>(count, OkStatus())});
  }

  void AnswerEffects(const JobId& key) { Answer(key, effect_count_); }

  std::string log;

 private:
  void Start(const std::string& what, const JobId& key) { log += what + key.name + "\n"; }

  TestWorld world_;
  std::vector<ClusterAnswer> answers_;
  std::size_t effect_count_ = 0;
};

class SlowClusterTest : public testing::Test {
 protected:
  // One step after which the log is read anew.
  std::string Step() {
    cluster_.log.clear();
    over_count_ += controller_.Step(now_).size();
    return cluster_.log;
  }

  const JobId other_{"default", "zebra"};
  TimePoint now_{seconds(1000)};
  SlowCluster cluster_{MakeTrainingJob(1)};
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  Controller controller_{&cluster_,
                         logger_.get(),
                         Calendar(now_, WallTime(seconds(1'000'000))),
                         {.jobs_at_once = 2, .turns_max = 2}};
  std::size_t over_count_ = 0;
};

TEST_F(SlowClusterTest, CalendarIsNotChangedUnderATurn) {
  const Calendar later(now_, WallTime(seconds(2'000'000)));
  controller_.Notify(kKey, now_);
  Step();
  EXPECT_DEATH(controller_.SetCalendar(later), "the calendar cannot change");

  controller_.Abandon(now_);
  controller_.SetCalendar(later);
  EXPECT_EQ(controller_.calendar().At(now_), WallTime(seconds(2'000'000)));
}

TEST_F(SlowClusterTest, JobThatWaitsForAnAnswerHoldsUpNoOther) {
  controller_.Notify(kKey, now_);
  controller_.Notify(other_, now_);
  EXPECT_EQ(Step(), "look at mnist\nlook at zebra\n");

  cluster_.Answer(other_);
  EXPECT_EQ(Step(), "write zebra\n");
  cluster_.Answer(other_);
  EXPECT_EQ(Step(), "publish zebra\nact for zebra\n");
  cluster_.AnswerEffects(other_);
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(over_count_, 1U);
}

TEST_F(SlowClusterTest, NewsOfAJobWhoseTurnIsUnderWayMakeTheNextTurn) {
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Step(), "look at mnist\n");
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Step(), "");
  cluster_.Answer(kKey);
  EXPECT_EQ(Step(), "write mnist\n");
  cluster_.Answer(kKey);
  EXPECT_EQ(Step(), "publish mnist\nact for mnist\n");
  cluster_.AnswerEffects(kKey);
  EXPECT_EQ(Step(), "look at mnist\n");
}

TEST_F(SlowClusterTest, TurnsUnderWayAreBoundedAndWhatWaitsAsksForNoStep) {
  const JobId third{"default", "zulu"};
  controller_.Notify(kKey, now_);
  controller_.Notify(other_, now_);
  controller_.Notify(third, now_);
  EXPECT_EQ(Step(), "look at mnist\nlook at zebra\n");
  EXPECT_EQ(controller_.NextStep(), std::nullopt) << "an answer comes before";
}

TEST_F(SlowClusterTest, AbandonedTurnsBeginAnewWhenTheirJobsAreDue) {
  controller_.Notify(kKey, now_);
  Step();
  controller_.Abandon(now_);
  EXPECT_TRUE(controller_.is_idle());
  EXPECT_EQ(Step(), "");
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Step(), "look at mnist\n");
}

TEST_F(SlowClusterTest, DrainEndsWhatIsUnderWayAndBeginsNothing) {
  controller_.Notify(kKey, now_);
  Step();
  controller_.Drain();
  controller_.Notify(other_, now_);
  cluster_.Answer(kKey);
  EXPECT_EQ(Step(), "write mnist\n");
  EXPECT_FALSE(controller_.is_idle());
  cluster_.Answer(kKey);
  Step();
  cluster_.AnswerEffects(kKey);
  EXPECT_EQ(Step(), "");
  EXPECT_TRUE(controller_.is_idle());
  EXPECT_EQ(controller_.NextStep(), std::nullopt);
}

class ProgressTest : public ControllerTest {
 protected:
  ProgressTest() {
    controller_ = Controller(&cluster_,
                             logger_.get(),
                             Calendar(now_, WallTime(seconds(1'000'000))),
                             {.progress_interval = seconds(5)});
    cluster_.world.Launch();
    ReportStep(1);
    controller_.Notify(kKey, now_);
    Drain();
  }

  void ReportStep(int64_t step) {
    cluster_.world.ReportAll();
    for (auto& [pod, report] : cluster_.world.observed.reports) {
      report.document.step = Step(step);
    }
  }
};

TEST_F(ProgressTest, ProgressAloneIsWrittenNowAndThen) {
  ReportStep(2);
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\npublish \n");
  EXPECT_EQ(controller_.NextStep(), now_ + seconds(5));

  now_ += seconds(5);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish \n");
  EXPECT_EQ(cluster_.world.job.status.progress->step, 2);
}

TEST_F(ProgressTest, AnythingElseTakesTheProgressWithIt) {
  ReportStep(2);
  cluster_.world.Exit("mnist-worker-0", 137);
  controller_.Notify(kKey, now_);

  EXPECT_EQ(Drain().substr(0, 17), "read mnist\nwrite\n");
}

class CountsTest : public ControllerTest {
 protected:
  CountsTest() : ControllerTest(MakeTrainingJob(3)) {
    controller_ = Controller(&cluster_,
                             logger_.get(),
                             Calendar(now_, WallTime(seconds(1'000'000))),
                             {.counts_interval = seconds(1)});
    cluster_.world.Step();  // its pods are made,
    cluster_.world.Step();  // and have been seen
    controller_.Notify(kKey, now_);
    Drain();
  }

  void Run(const std::string& pod) {
    cluster_.world.Find(pod)->status.phase = kube::PodPhase::kRunning;
    controller_.Notify(kKey, now_);
  }
};

TEST_F(CountsTest, PodsThatComeUpAreCountedTogether) {
  Run("mnist-worker-0");
  Drain();
  now_ += milliseconds(500);
  Run("mnist-worker-1");
  EXPECT_EQ(Drain(), "read mnist\npublish \n");

  now_ += milliseconds(500);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish \n");
  EXPECT_EQ(cluster_.world.job.status.roles[0].active, 2);
}

TEST_F(CountsTest, GangThatIsCompleteIsToldOfAtOnce) {
  Run("mnist-worker-0");
  Run("mnist-worker-1");
  Drain();
  Run("mnist-worker-2");

  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish GangRunning\n");
}

class WordsTest : public ControllerTest {
 protected:
  WordsTest() {
    controller_ = Controller(&cluster_,
                             logger_.get(),
                             Calendar(now_, WallTime(seconds(1'000'000))),
                             {.words_interval = seconds(10)});
    Refuse("needs 3 GPUs, 1 free on 2 nodes");
    Drain();
  }

  void Refuse(const std::string& shortfall) {
    cluster_.world.observed.round = Unschedulable{Constraint::kGpu, shortfall};
    controller_.Notify(kKey, now_);
  }
};

TEST_F(WordsTest, FiguresOfAShortfallAreWrittenNowAndThen) {
  Refuse("needs 3 GPUs, 2 free on 2 nodes");
  EXPECT_EQ(Drain(), "read mnist\npublish \n");

  now_ += seconds(10);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish \n");
  EXPECT_EQ(MessageOf(cluster_.world.job.status, ConditionType::kScheduled),
            "needs 3 GPUs, 2 free on 2 nodes");
}

TEST_F(WordsTest, AnotherNeedIsToldOfAtOnce) {
  Refuse("needs 3 nodes, 2 there are");

  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish Unschedulable\n");
}

class DeadlineTest : public ControllerTest {
 protected:
  DeadlineTest() : ControllerTest(JobWithDeadline()) {}

  static TrainingJob JobWithDeadline() {
    TrainingJob job = MakeTrainingJob(1);
    job.spec.run_policy.active_deadline = seconds(100);
    return job;
  }
};

TEST_F(DeadlineTest, DeadlineFiresWithoutAnyNews) {
  controller_.Notify(kKey, now_);
  Drain();
  cluster_.world.observed.pods.clear();
  while (controller_.NextStep().has_value() && now_ < TimePoint(seconds(1100))) {
    now_ = *controller_.NextStep();
    Drain();
  }

  EXPECT_EQ(now_, TimePoint(seconds(1100)));
  EXPECT_TRUE(IsTrue(cluster_.world.job.status, ConditionType::kFailed));
}

}  // namespace
}  // namespace lockstep::control
