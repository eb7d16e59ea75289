#include <set>

#include <gtest/gtest.h>

#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/failure/hung_rank.h"
#include "operator/reconcile/failure/restart_policy.h"
#include "operator/reconcile/gang/success_policy.h"
#include "operator/reconcile/gang/suspect_nodes.h"
#include "operator/reconcile/lifecycle/clock_skew.h"

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
                                code != kExitPreempted && code != kExitHung &&
                                code != kExitPortTaken;
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

constexpr WallTime kNow{std::chrono::seconds(1'000'000)};
constexpr BudgetTerms kTerms{std::chrono::seconds(60), 0};

Charge ChargeOf(std::string_view cause, const std::string& node, std::chrono::seconds age) {
  return {std::string(cause), node, kNow - age, IsFreeCause(cause)};
}

// Each failure of a pod that began after the last incident is an incident of its own.
TEST(Budget, EveryCauseCountsUnlessItIsFree) {
  for (const ExitCause cause : kExitCauses) {
    const std::string_view name = ExitCauseName(cause);
    std::vector<Incident> incidents;
    for (int i = 0; i < 3; ++i) {
      const WallTime now = kNow + std::chrono::seconds(i);
      incidents =
          Charged(incidents, {{std::string(name), "a", now, IsFreeCause(name)}}, kTerms, now);
    }
    const bool is_free = cause == ExitCause::kPreempted || cause == ExitCause::kCompleted;
    EXPECT_EQ(CountedIncidents(incidents), is_free ? 0 : 3) << name;
    EXPECT_EQ(FreeIncidents(incidents), is_free ? 3 : 0) << name;
  }
}

// An incident on node a began ten seconds ago; now something else fails.
TEST(Budget, OpenIncidentTakesInWhatBelongsToIt) {
  using std::chrono::seconds;

  struct Row {
    std::string what;
    Charge charge;
    seconds began{10};
    bool is_taken_in = false;
  };

  const std::vector<Row> rows = {
      {"another pod of the node", ChargeOf("crash", "a", seconds(60)), seconds(10), true},
      {"another pod of the node, late", ChargeOf("crash", "a", seconds(60)), seconds(31), false},
      {"a pod of another node", ChargeOf("crash", "b", seconds(60)), seconds(10), false},
      {"its successor", ChargeOf("crash", "a", seconds(10)), seconds(10), false},
      {"a pod without a node", ChargeOf("crash", "", seconds(60)), seconds(10), false},
      {"a survivor that waited", ChargeOf("unreachable", "b", seconds(99)), seconds(85), true},
      {"one that waited for longer", ChargeOf("unreachable", "b", seconds(99)), seconds(91), false},
      {"a successor that waited", ChargeOf("unreachable", "b", seconds(70)), seconds(70), false},
      {"its successor does not start",
       ChargeOf("start_timeout", "", seconds(60)),
       seconds(60),
       true},
      {"a later one does not", ChargeOf("start_timeout", "", seconds(60)), seconds(91), false},
      {"a pod that was asked to end", ChargeOf("preempted", "a", seconds(60)), seconds(10), true},
  };
  for (const Row& row : rows) {
    const std::vector<Incident> known = {{kNow - row.began, "killed", "a", 0, false, 1}};
    const std::vector<Incident> after = Charged(known, {row.charge}, kTerms, kNow);
    EXPECT_EQ(after.size() == known.size(), row.is_taken_in) << row.what;
  }
}

TEST(Budget, FailuresOfOneTurnAreOneIncidentByNode) {
  const std::chrono::seconds age(60);
  const auto count = [](const std::vector<Charge>& charges) {
    return CountedIncidents(Charged({}, charges, kTerms, kNow));
  };
  EXPECT_EQ(count({ChargeOf("killed", "a", age), ChargeOf("crash", "a", age)}), 1);
  EXPECT_EQ(count({ChargeOf("killed", "a", age), ChargeOf("killed", "b", age)}), 2);
  EXPECT_EQ(count({ChargeOf("unreachable", "a", age), ChargeOf("killed", "b", age)}), 1);
  EXPECT_EQ(count({ChargeOf("preempted", "a", age), ChargeOf("killed", "a", age)}), 1);
  EXPECT_EQ(count({ChargeOf("preempted", "a", age), ChargeOf("preempted", "b", age)}), 0);
}

TEST(Budget, IncidentsAreForgottenAfterADayOrANewerCheckpoint) {
  const auto left = [](std::chrono::seconds age, int64_t checkpoint_step) {
    return Remembered({{kNow - age, "crash", "a", 7, false, 1}}, checkpoint_step, kNow).size();
  };
  EXPECT_EQ(left(kBudgetWindow, 7), 1U);
  EXPECT_EQ(left(kBudgetWindow + std::chrono::seconds(1), 7), 0U);
  EXPECT_EQ(left(kIncidentWindow, 8), 1U);
  EXPECT_EQ(left(kIncidentWindow + std::chrono::seconds(1), 8), 0U);
}

TEST(Budget, LongListsAreSummedUpWithoutLosingCount) {
  std::vector<Incident> incidents;
  for (int i = 0; i < 500; ++i) {
    const WallTime now = kNow + std::chrono::seconds(i);
    incidents = Charged(incidents, {{"crash", "a", now, i % 100 == 0}}, kTerms, now);
    EXPECT_LE(incidents.size(), kIncidentsListedMax);
  }
  EXPECT_EQ(CountedIncidents(incidents), 495);
  EXPECT_EQ(FreeIncidents(incidents), 5);
}

TEST(Budget, CausesStandInOrderAndOnce) {
  std::vector<RestartCount> restarts;
  for (const char* cause : {"oom", "hang", "oom", "killed"}) {
    restarts = WithRestart(std::move(restarts), cause);
  }

  EXPECT_EQ(restarts, (std::vector<RestartCount>{{"hang", 1}, {"killed", 1}, {"oom", 2}}));
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

// Written by one whose clock was ahead.
TEST(WithoutFuture, EveryMomentOfAWaitIsOver) {
  const WallTime now{std::chrono::seconds(1'000'000)};
  const WallTime ahead = now + std::chrono::hours(24);
  TrainingJobStatus status;
  status.waiting_since = ahead;
  status.suspect_nodes = {{"node-a", "PodRefused", 1, ahead}};
  PodPlacement placement;
  placement.trouble_since = ahead;
  status.placement = {placement};

  status = WithoutFuture(std::move(status), now);
  EXPECT_EQ(status.waiting_since, now);
  EXPECT_EQ(status.placement.front().trouble_since, now);
  EXPECT_EQ(status.suspect_nodes.front().until, now + kSuspicionMax);
}

}  // namespace
}  // namespace lockstep::control
