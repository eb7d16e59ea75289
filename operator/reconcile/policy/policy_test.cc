#include <set>

#include <gtest/gtest.h>

#include "operator/reconcile/detect/suspect.h"
#include "operator/reconcile/policy/budget.h"
#include "operator/reconcile/policy/restart_policy.h"
#include "operator/reconcile/policy/success_policy.h"

namespace lockstep::control {
namespace {

constexpr auto kNone = FailureResponse::kNone;
constexpr auto kRestart = FailureResponse::kRestart;
constexpr auto kFail = FailureResponse::kFailJob;

TEST(RestartPolicyTable, EveryPolicyAndOutcomeOfARankHasItsResponse) {
  struct Row {
    Outcome outcome;
    FailureResponse never;
    FailureResponse on_failure;
    FailureResponse always;
    FailureResponse exit_code;
  };

  const std::vector<Row> rows = {
      {Outcome::kSuccess, kNone, kNone, kNone, kNone},
      {Outcome::kPermanent, kFail, kRestart, kRestart, kFail},
      {Outcome::kRetryable, kFail, kRestart, kRestart, kRestart},
      {Outcome::kPreempted, kFail, kRestart, kRestart, kRestart},
      {Outcome::kSuperseded, kFail, kRestart, kRestart, kRestart},
  };
  ASSERT_EQ(rows.size(), kOutcomes.size());
  for (const Row& row : rows) {
    SCOPED_TRACE(OutcomeName(row.outcome));
    EXPECT_EQ(ResponseTo(RestartPolicy::kNever, row.outcome, true), row.never);
    EXPECT_EQ(ResponseTo(RestartPolicy::kOnFailure, row.outcome, true), row.on_failure);
    EXPECT_EQ(ResponseTo(RestartPolicy::kAlways, row.outcome, true), row.always);
    EXPECT_EQ(ResponseTo(RestartPolicy::kExitCode, row.outcome, true), row.exit_code);
  }
}

// All 256 exit codes under all policies: what the classes promise holds for each code.
TEST(RestartPolicyTable, EveryExitCodeGetsTheResponseOfItsClass) {
  for (int code = 0; code <= 255; ++code) {
    SCOPED_TRACE(code);
    const int signal = code > kExitSignalBase && code <= kExitSignalBase + 64 ? code - 128 : 0;
    const Outcome outcome = ClassifyExit(code, signal, "").outcome;
    const bool is_own_verdict = code >= 1 && code <= 127 && code != kExitInternal &&
                                code != kExitRetryable && code != kExitSuperseded &&
                                code != kExitPreempted;
    EXPECT_EQ(ResponseTo(RestartPolicy::kNever, outcome, true), code == 0 ? kNone : kFail);
    EXPECT_EQ(ResponseTo(RestartPolicy::kOnFailure, outcome, true), code == 0 ? kNone : kRestart);
    EXPECT_EQ(ResponseTo(RestartPolicy::kAlways, outcome, true), code == 0 ? kNone : kRestart);
    if (is_own_verdict) {
      EXPECT_EQ(ResponseTo(RestartPolicy::kExitCode, outcome, true), kFail);
    }
    if (code > kExitSignalBase && signal != 0) {
      EXPECT_EQ(ResponseTo(RestartPolicy::kExitCode, outcome, true), kRestart);
    }
  }
}

TEST(RestartPolicyTable, AlwaysRestartsWhatIsNoRankEvenAfterSuccess) {
  EXPECT_EQ(ResponseTo(RestartPolicy::kAlways, Outcome::kSuccess, false), kRestart);
  EXPECT_EQ(ResponseTo(RestartPolicy::kOnFailure, Outcome::kSuccess, false), kNone);
}

TEST(Budget, AllowsAsManyCountedRestartsAsTheLimitForEveryCause) {
  for (const ExitCause cause : kExitCauses) {
    const std::string_view name = ExitCauseName(cause);
    for (int64_t limit = 0; limit <= 3; ++limit) {
      TrainingJobStatus status;
      int64_t allowed = 0;
      while (HasBudget(status, limit, name) && allowed < 10) {
        CountRestart(name, &status);
        ++allowed;
      }
      const bool is_free = cause == ExitCause::kPreempted || cause == ExitCause::kCompleted;
      EXPECT_EQ(allowed, is_free ? 10 : limit) << name;
    }
  }
}

TEST(Budget, UncountedRestartsEndSomewhere) {
  TrainingJobStatus status;
  status.restarts = {{"preempted", kUncountedRestartsMax}};

  EXPECT_FALSE(HasBudget(status, 6, "preempted"));
  EXPECT_TRUE(HasBudget(status, 6, "killed"));
}

TEST(Budget, CausesStandInOrderAndOnce) {
  TrainingJobStatus status;
  for (const char* cause : {"oom", "hang", "oom", "killed"}) {
    CountRestart(cause, &status);
  }

  EXPECT_EQ(status.restarts, (std::vector<RestartCount>{{"hang", 1}, {"killed", 1}, {"oom", 2}}));
}

JobTopology Topology(bool has_chief, int workers) {
  JobTopology topology{"mnist", "default", {{Role::kWorker, workers, 1}}, {}};
  if (has_chief) {
    topology.roles.push_back({Role::kChief, 1, 1});
  }
  topology.roles.push_back({Role::kEvaluator, 1, 1});
  return topology;
}

// Every way in which chief, two workers and an evaluator can have finished or not.
TEST(SuccessPolicyTable, EveryPatternOfFinishedTasks) {
  for (int has_chief = 0; has_chief <= 1; ++has_chief) {
    const JobTopology topology = Topology(has_chief == 1, 2);
    const std::vector<TaskId> tasks = AllTasks(topology);
    for (int pattern = 0; pattern < (1 << tasks.size()); ++pattern) {
      GangView view;
      std::set<TaskId> finished;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        Member member;
        member.task = tasks[i];
        member.rank = FirstRankOf(topology, tasks[i]);
        member.state = MemberState::kRunning;
        if ((pattern >> i) & 1) {
          member.state = MemberState::kSucceeded;
          finished.insert(tasks[i]);
        }
        view.members.push_back(member);
      }
      const bool chief = finished.count({Role::kChief, 0}) > 0;
      const bool worker0 = finished.count({Role::kWorker, 0}) > 0;
      const bool worker1 = finished.count({Role::kWorker, 1}) > 0;
      EXPECT_EQ(HasSucceeded(SuccessPolicy::kChiefOrWorker0, topology, view),
                has_chief == 1 ? chief : worker0);
      EXPECT_EQ(HasSucceeded(SuccessPolicy::kAllWorkers, topology, view),
                worker0 && worker1 && (has_chief == 0 || chief));
    }
  }
}

// Two or three running ranks with a report each, as old as given.
class HangingRanksTest : public testing::Test {
 protected:
  void AddRank(Duration report_age) {
    Member member;
    member.task = {Role::kWorker, static_cast<int>(reports_.size())};
    member.rank = member.task.index;
    member.state = MemberState::kRunning;
    reports_.emplace_back();
    reports_.back().age = report_age;
    view_.members.push_back(member);
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      view_.members[i].report = &reports_[i];
    }
  }

  void Accuse(int accuser, int accused, double silent_seconds, Incarnation incarnation = {}) {
    reports_[static_cast<std::size_t>(accuser)].document.peers.push_back(
        {accused, incarnation, PeerState::kSilent, "", silent_seconds});
  }

  std::set<int> Hanging() const { return HangingRanks(view_, std::chrono::milliseconds(1500)); }

  std::vector<RuntimeReport> reports_;
  GangView view_;
};

TEST_F(HangingRanksTest, SilentToAPeerAndToUsHangs) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::seconds(2));
  Accuse(0, 1, 1.6);

  EXPECT_EQ(Hanging(), std::set<int>{1});
}

TEST_F(HangingRanksTest, RankWithoutAnyReportCanHang) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::seconds(2));
  Accuse(0, 1, 1.6);
  view_.members[1].report = nullptr;

  EXPECT_EQ(Hanging(), std::set<int>{1});
}

TEST_F(HangingRanksTest, RankThatAnswersUsIsSpared) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::milliseconds(100));
  Accuse(0, 1, 9);
  Accuse(1, 0, 9);

  EXPECT_TRUE(Hanging().empty());
}

TEST_F(HangingRanksTest, LateReportAloneIsNoHang) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::seconds(20));

  EXPECT_TRUE(Hanging().empty());
}

TEST_F(HangingRanksTest, OldAccusationsDoNotCount) {
  AddRank(std::chrono::seconds(2));
  AddRank(std::chrono::seconds(2));
  Accuse(0, 1, 9);

  EXPECT_TRUE(Hanging().empty());
}

TEST_F(HangingRanksTest, ShortSilenceIsNoHang) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::seconds(2));
  Accuse(0, 1, 1.4);

  EXPECT_TRUE(Hanging().empty());
}

TEST_F(HangingRanksTest, AccusationOfAPredecessorDoesNotHitTheSuccessor) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::seconds(2));
  Accuse(0, 1, 9, Incarnation(0));
  view_.members[1].number.incarnation = Incarnation(1);

  EXPECT_TRUE(Hanging().empty());
}

TEST_F(HangingRanksTest, PodThatDoesNotRunYetCannotHang) {
  AddRank(std::chrono::milliseconds(100));
  AddRank(std::chrono::seconds(2));
  Accuse(0, 1, 9);
  view_.members[1].state = MemberState::kPending;

  EXPECT_TRUE(Hanging().empty());
}

}  // namespace
}  // namespace lockstep::control
