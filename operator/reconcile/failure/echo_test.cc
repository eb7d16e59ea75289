#include "operator/reconcile/failure/echo.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/contract/status/exit_code.h"
#include "common/contract/status/lost_peer.h"
#include "common/contract/status/termination_message.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

constexpr int kEchoCode = 1;  // what PyTorch and TensorFlow end with when a peer is gone

// The story: worker 1 is killed, worker 0 ends with code 1 for it, and is heard of first.
TEST(Echo, SurvivorsEndIsSeenFirstThenThePeersEndRestartsTheGang) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-0", kEchoCode);

  const Decision first = world.Step();
  EXPECT_EQ(TrueConditions(first.status), "Created Scheduled Running");
  EXPECT_EQ(first.next_wakeup, world.now + kEchoPatience);
  world.Advance(std::chrono::milliseconds(2300));
  world.Exit("mnist-worker-1", 137);

  EXPECT_EQ(TrueConditions(world.Step().status), "Created Restarting");
  EXPECT_EQ(DescribeRestarts(world.job.status), "killed=1");
}

TEST(Echo, NobodyExplainsItThenTheJobFailsForItAfterTheWait) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-0", kEchoCode);
  world.Step();
  world.Advance(kEchoPatience - std::chrono::milliseconds(1));
  EXPECT_FALSE(HasEnded(world.Step().status));
  world.Advance(std::chrono::milliseconds(1));

  EXPECT_TRUE(HasEnded(world.Step().status));
  EXPECT_NE(MessageOf(world.job.status, ConditionType::kFailed).find("worker-0"),
            std::string::npos);
}

TEST(Echo, AllHaveEndedThenTheFirstToEndIsTheReasonAtOnce) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-1", 3);
  world.Step();
  world.Advance(std::chrono::milliseconds(100));
  world.Exit("mnist-worker-0", kEchoCode);

  EXPECT_TRUE(HasEnded(world.Step().status));
  EXPECT_NE(MessageOf(world.job.status, ConditionType::kFailed).find("worker-1"),
            std::string::npos);
}

// A program that gives up because it has lost `peer`, and says so last.
void LosePeer(TestWorld* world, const std::string& pod, int peer) {
  world->GiveUp(pod, "lockstep: " + DescribeLostPeers({peer}, "closed"));
}

// The story: worker 1 has a bug, and worker 0 gives up because it has lost worker 1. Whatever the
// order in which the two end or are told of, the job fails for the bug, as the second one is told.
TEST(Echo, BugOfTheLostPeerIsTheReasonInWhateverOrderTheyEnd) {
  for (const bool is_bug_first : {true, false}) {
    for (const auto between : {std::chrono::milliseconds(0), std::chrono::milliseconds(400)}) {
      TestWorld world(MakeCommandJob(2));
      world.Launch();
      is_bug_first ? world.Exit("mnist-worker-1", 3) : LosePeer(&world, "mnist-worker-0", 1);
      EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
      world.Advance(between);
      is_bug_first ? LosePeer(&world, "mnist-worker-0", 1) : world.Exit("mnist-worker-1", 3);

      EXPECT_TRUE(HasEnded(world.Step().status)) << is_bug_first;
      EXPECT_NE(MessageOf(world.job.status, ConditionType::kFailed).find("worker-1"),
                std::string::npos);
      EXPECT_EQ(DescribeRestarts(world.job.status), "");
    }
  }
}

// The story: worker 1 has a bug in the midst of a call. Worker 2 loses it and says so to worker 0,
// which repeats that at such length that people are not shown the end.
TEST(Echo, BugOfAPeerThatAnotherHasReportedLostIsTheReason) {
  const std::string call =
      ": all_reduce mean of 1048576 x bfloat16 (2097152 bytes), epoch 12, call 104857";
  for (const bool is_json : {true, false}) {
    TestWorld world(MakeCommandJob(3));
    world.Launch();
    const std::string words =
        "lockstep.errors.MeetAgain: rank 0" + call + ": rank 2 reported: rank 2" + call + ": " +
        DescribeLostPeers({1}, "its connection is closed") + ", after 1.2 ms, after 1.4 ms";
    world.GiveUp("mnist-worker-0", words);
    if (!is_json) {
      world.Find("mnist-worker-0")->status.termination->message = "Traceback\n" + words + "\n";
    }
    LosePeer(&world, "mnist-worker-2", 1);
    EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
    world.Exit("mnist-worker-1", 3);

    EXPECT_TRUE(HasEnded(world.Step().status));
    EXPECT_NE(MessageOf(world.job.status, ConditionType::kFailed).find("worker-1"),
              std::string::npos);
  }
}

// A peer that gave up for the lost one is as gone as that one by the time somebody looks.
TEST(Echo, BugOfOneOfSeveralLostPeersIsTheReason) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  world.GiveUp("mnist-worker-0", DescribeLostPeers({1, 2}, "its connection is closed"));
  LosePeer(&world, "mnist-worker-1", 0);  // which was the first that it looked at
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Scheduled Running");
  world.Exit("mnist-worker-2", 3);

  EXPECT_TRUE(HasEnded(world.Step().status));
  EXPECT_NE(MessageOf(world.job.status, ConditionType::kFailed).find("worker-2"),
            std::string::npos);
}

// Whoever deletes a pod takes all its ranks.
TEST(Echo, LossOfASecondProcessIsExplainedByItsPodThatIsGone) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].processes = 2;
  TestWorld world(job);
  world.Launch();
  LosePeer(&world, "mnist-worker-0", 3);
  world.Vanish("mnist-worker-1");

  EXPECT_EQ(DescribeRestarts(world.Step().status), "deleted=1");
}

// The story: worker 1 is killed and replaced, and worker 0's program does not meet again but gives
// up: for worker 1's first pod, whose end is answered. Once the second has met the others, its own
// end is the one to wait for.
TEST(Echo, LostPeerIsItsSuccessorOnlyOnceThatHasJoinedTheOthers) {
  for (const bool has_joined : {false, true}) {
    TestWorld world(MakeCommandJob(3));
    world.Launch();
    world.ReportMeeting();
    world.Exit("mnist-worker-1", 137);
    world.Step();
    world.RunAll();
    world.Step();
    has_joined ? world.ReportMeeting() : world.ReportAll();
    world.observed.reports["mnist-worker-2"].document.backend = "tcp";
    ASSERT_NE(world.Find("mnist-worker-1-r1"), nullptr);
    LosePeer(&world, "mnist-worker-0", 1);

    EXPECT_EQ(DescribeRestarts(world.Step().status),
              has_joined ? "killed=1" : "killed=1 unreachable=1");
  }
}

// A leader that has just begun has not asked it yet.
TEST(Echo, SuccessorThatWasNotAskedYetMayBeTheLostPeer) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  world.Exit("mnist-worker-1", 137);
  world.Step();
  world.RunAll();
  world.Step();
  world.observed.reports.clear();
  LosePeer(&world, "mnist-worker-0", 1);
  EXPECT_EQ(DescribeRestarts(world.Step().status), "killed=1");
}

// The lost peer's node may be gone: nobody tells of its end, and the gang starts anew.
TEST(Echo, LostPeersEndIsNotToldThenTheGangStartsAnewAfterTheWait) {
  TestWorld world(MakeCommandJob(3));
  world.Launch();
  LosePeer(&world, "mnist-worker-0", 2);
  world.Exit("mnist-worker-1", kEchoCode);
  EXPECT_EQ(world.Step().next_wakeup, world.now + kEchoPatience);
  world.Advance(kEchoPatience);

  EXPECT_EQ(TrueConditions(world.Step().status), "Created Restarting");
  EXPECT_EQ(DescribeRestarts(world.job.status), "unreachable=1");
}

TEST(Echo, WhoSaysOfNobodyThatItIsLostIsTriedAgainAtOnce) {
  TestWorld world(MakeCommandJob(2));
  world.Launch();
  world.Exit("mnist-worker-0", kExitRetryable);
  EXPECT_EQ(TrueConditions(world.Step().status), "Created Restarting");
}

TEST(Echo, RestartIsCountedForTheLostPeersEndAndNotForItsEcho) {
  TrainingJob job = MakeCommandJob(2);
  job.spec.roles[0].restart_policy = RestartPolicy::kOnFailure;
  TestWorld world(job);
  world.Launch();
  LosePeer(&world, "mnist-worker-0", 1);
  world.Step();
  world.Advance(std::chrono::milliseconds(400));
  world.Exit("mnist-worker-1", 3);
  EXPECT_EQ(DescribeRestarts(world.Step().status), "program_exit=1");
}

// Who waits, and who does not. Each row: a gang of which worker 0 has just ended.
struct EchoRow {
  std::string what;
  TrainingJob job;
  int code = kEchoCode;
  std::string reason;
  Duration clock_ahead{};  // of worker 0's node
  bool waits = false;
};

TrainingJob WithPolicy(TrainingJob job, RestartPolicy policy) {
  for (RoleSpec& role : job.spec.roles) {
    role.restart_policy = policy;
  }
  return job;
}

TrainingJob WithRole(TrainingJob job, Role role) {
  AddRole(role, 1, &job);
  return job;
}

TEST(Echo, WaitsOnlyWhereAnotherEndCouldChangeTheAnswer) {
  const std::vector<EchoRow> rows = {
      {"a gang of two", MakeCommandJob(2), kEchoCode, "", {}, true},
      {"a parameter server may be at fault",
       WithRole(MakeCommandJob(1), Role::kPs),
       1,
       "",
       {},
       true},
      {"a node's clock a little ahead", MakeCommandJob(2), kEchoCode, "", seconds(1), true},
      {"a pod alone", MakeCommandJob(1), kEchoCode, "", {}, false},
      {"an evaluator is no peer", WithRole(MakeCommandJob(1), Role::kEvaluator), 1, "", {}, false},
      {"the trainer names its peer itself", MakeTrainingJob(2), kEchoCode, "", {}, false},
      {"no restart would be allowed",
       WithPolicy(MakeCommandJob(2), RestartPolicy::kNever),
       1,
       "",
       {},
       false},
      {"it is restarted anyway",
       WithPolicy(MakeCommandJob(2), RestartPolicy::kOnFailure),
       1,
       "",
       {},
       false},
      {"the input is wrong", MakeCommandJob(2), 64, "", {}, false},
      {"the program is not there", MakeCommandJob(2), 127, "", {}, false},
      {"the container did not start", MakeCommandJob(2), 128, "StartError", {}, false},
      {"a node's clock far ahead", MakeCommandJob(2), kEchoCode, "", seconds(3600), false},
      {"a node's clock far behind", MakeCommandJob(2), kEchoCode, "", seconds(-3600), false},
  };
  for (const EchoRow& row : rows) {
    TestWorld world(row.job);
    world.Launch();
    world.Exit("mnist-worker-0", row.code, row.reason);
    std::optional<WallTime>& finished_at =
        world.Find("mnist-worker-0")->status.termination->finished_at;
    *finished_at += std::chrono::duration_cast<std::chrono::milliseconds>(row.clock_ahead);
    const std::optional<WallTime> until = *finished_at + kEchoPatience;

    const Decision decision = world.Step();

    const bool goes_on = IsTrue(decision.status, ConditionType::kRunning);
    EXPECT_EQ(goes_on, row.waits) << row.what;
    EXPECT_EQ(decision.next_wakeup == until, row.waits) << row.what;
  }
}

Failure OfRank(int rank, FailureResponse response, std::vector<int> lost_ranks) {
  Failure failure;
  failure.task = {Role::kWorker, rank};
  failure.rank = rank;
  failure.pod_name = std::to_string(rank);
  failure.response = response;
  failure.lost_ranks = std::move(lost_ranks);
  return failure;
}

TEST(Echo, OriginIsWhomNoOtherExplains) {
  const auto lost = [](int rank, int peer) {
    return OfRank(rank, FailureResponse::kRestart, {peer});
  };
  const Failure bug = OfRank(2, FailureResponse::kFailJob, {});
  const Failure killed = OfRank(3, FailureResponse::kRestart, {});
  const auto origin = [](const std::vector<Failure>& failures) {
    return OriginOf(failures, /*is_training=*/false).pod_name;
  };

  EXPECT_EQ(origin({lost(0, 2), bug}), "2");
  EXPECT_EQ(origin({lost(0, 1), lost(1, 2), bug}), "2");  // one after the other
  EXPECT_EQ(origin({lost(0, 2), bug, killed}), "3");      // whose echo the code may be
  EXPECT_EQ(origin({lost(0, 1), bug}), "0");              // of rank 1 nobody knows
  EXPECT_EQ(origin({lost(0, 1), lost(1, 0)}), "0");       // they have lost one another
  EXPECT_EQ(origin({OfRank(0, FailureResponse::kRestart, {1, 2}), bug}), "2");
  Failure pod = bug;
  pod.rank = 4;
  pod.process_count = 2;
  EXPECT_EQ(origin({lost(0, 5), pod}), "2");
  EXPECT_EQ(origin({lost(0, 6), pod}), "0");
}

TEST(Echo, OriginIsTheOneThatEndedFirst) {
  const WallTime start{seconds(100)};
  Failure early;
  early.pod_name = "early";
  early.response = FailureResponse::kFailJob;
  early.ended_at = start;
  Failure late = early;
  late.pod_name = "late";
  late.ended_at = start + seconds(1);
  Failure unknown = early;
  unknown.pod_name = "unknown";
  unknown.ended_at.reset();
  Failure restart = late;
  restart.pod_name = "restart";
  restart.response = FailureResponse::kRestart;

  EXPECT_EQ(OriginOf({late, early}, /*is_training=*/false).pod_name, "early");
  EXPECT_EQ(OriginOf({unknown, late, early}, /*is_training=*/true).pod_name, "early");
  EXPECT_EQ(OriginOf({unknown, unknown}, /*is_training=*/false).pod_name, "unknown");
  EXPECT_EQ(OriginOf({early, restart}, /*is_training=*/false).pod_name, "restart");
  EXPECT_EQ(OriginOf({restart, late}, /*is_training=*/true).pod_name, "late");
}

TEST(Echo, OneThatTellsOfAClosedConnectionIsNotTheOrigin) {
  Failure echo = OfRank(0, FailureResponse::kFailJob, {});
  echo.ended_at = WallTime(seconds(100));
  echo.sentence =
      "pod w-0 (rank 1) exit code 1: RuntimeError: [pair.cc:598] Connection closed by peer";
  Failure bug = OfRank(2, FailureResponse::kFailJob, {});
  bug.ended_at = WallTime(seconds(101));
  bug.sentence = "pod w-1 (rank 3) exit code 3";
  Failure killed = bug;
  killed.response = FailureResponse::kRestart;
  killed.sentence = "pod w-1 (rank 3) killed by SIGKILL: Connection closed by peer";

  EXPECT_EQ(OriginOf({echo, bug}, /*is_training=*/false).pod_name, "2");
  EXPECT_EQ(OriginOf({bug, echo}, /*is_training=*/false).pod_name, "2");
  EXPECT_EQ(OriginOf({echo, killed}, /*is_training=*/false).pod_name, "2");
}

}  // namespace
}  // namespace lockstep::control
