#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/reconcile/failure/budget.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/testing/small_world.h"

// What the checks forgive because no operator can tell, and the first thing beyond it that they do
// not: each table has rows on either side of the line.
namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Somebody deleted the pod. If its node does not report when that is found out, or did not a moment
// ago, it may be taken for lost with the node.
TEST(Tolerance, PodThatSomebodyRemovedMayCountAsLostWithANodeThatHasJustNotReported) {
  struct Row {
    std::string what;
    bool was_lost;        // the node has not reported
    bool is_back;         // and does again
    Duration since_then;  // since it was last seen not to
    std::string verdict;
  };

  const std::string too_many = "1 incidents are counted, 0 have happened";
  const std::vector<Row> rows = {
      {"a node that has always reported", false, true, seconds(0), too_many},
      {"a node that does not report", true, false, minutes(5), ""},
      {"a node that did not 15 s ago", true, true, seconds(15), ""},
      {"a node that did not longer ago", true, true, milliseconds(15'001), too_many},
  };
  for (const Row& row : rows) {
    SmallWorld world(MakeTrainingJob(1));
    const std::string pod = world.AddPod(0, {}, "n0");
    world.Write([&](TrainingJobStatus* status) { Place(0, "n0", pod, status); });
    world.casualties()->NoteAlone(pod, /*is_free=*/true);
    world.casualties()->NoteNode("n0", world.casualties()->Begin(/*is_free=*/false));
    world.SetNodeReady("n0", !row.was_lost);
    if (row.is_back) {
      world.SetNodeReady("n0", true);
    }
    world.context.now += row.since_then;
    ASSERT_EQ(world.checks.problem(), "") << row.what;

    world.Write([](TrainingJobStatus* status) {
      Replace(0, "node_lost", status);
      CountIncident("node_lost", status);
    });

    ExpectVerdict(world, row.verdict, row.what);
  }
}

// Two pods are met by one act and told of one after the other. Beyond an incident's window nobody
// can tell that it was the same.
TEST(Tolerance, LossThatIsToldLongAfterAnotherWasAnsweredMayBeCountedAgain) {
  struct Row {
    bool is_free;      // somebody asked for it
    Duration between;  // the two answers
    int counted;       // in the end
    std::string verdict;
  };

  const std::vector<Row> rows = {
      {false, kIncidentWindow, 1, ""},
      {false, kIncidentWindow, 2, "2 incidents are counted, 1 have happened"},
      {false, kIncidentWindow + milliseconds(1), 2, ""},
      {false, kIncidentWindow + milliseconds(1), 3, "3 incidents are counted, 2 have happened"},
      {true, kIncidentWindow + milliseconds(1), 1, "1 incidents are counted, 0 have happened"},
  };
  for (const Row& row : rows) {
    SmallWorld world(MakeTrainingJob(2));
    const std::vector<std::string> pods = {world.AddPod(0, {}, "n0"), world.AddPod(1, {}, "n0")};
    world.Write([&](TrainingJobStatus* status) {
      Place(0, "n0", pods[0], status);
      Place(1, "n0", pods[1], status);
    });
    const int act = world.casualties()->Begin(row.is_free);
    world.casualties()->Note(pods[0], act);
    world.casualties()->Note(pods[1], act);
    world.Write([&](TrainingJobStatus* status) {
      Replace(0, "crash", status);
      if (!row.is_free) {
        CountIncident("crash", status);
      }
    });
    world.context.now += row.between;
    ASSERT_EQ(world.checks.problem(), "");

    world.Write([&](TrainingJobStatus* status) {
      Replace(1, "crash", status);
      while (CountedIncidents(status->incidents) < row.counted) {
        CountIncident("crash", status);
      }
    });

    ExpectVerdict(world, row.verdict, std::to_string(row.counted));
  }
}

// An incident whose cause is not known yet may turn out to be free.
TEST(Tolerance, IncidentWithoutACauseIsNotCountedYet) {
  for (const auto& [cause, verdict] : std::vector<std::pair<std::string, std::string>>{
           {"ended", ""}, {"crash", "1 incidents are counted, 0 have happened"}}) {
    SmallWorld world(MakeTrainingJob(1));
    const std::string pod = world.AddPod(0, {}, "n0");
    world.Write([&](TrainingJobStatus* status) { Place(0, "n0", pod, status); });
    world.casualties()->NoteAlone(pod, /*is_free=*/true);

    world.Write([&](TrainingJobStatus* status) {
      Replace(0, cause, status);
      CountIncident(cause, status);
    });

    ExpectVerdict(world, verdict, cause);
  }
}

// Pods that do not come to run may be given up though nothing has met them; of a gang, one counts.
TEST(Tolerance, GangThatDoesNotComeToRunCountsOnce) {
  for (const auto& [counted, verdict] : std::vector<std::pair<int, std::string>>{
           {1, ""}, {2, "2 incidents are counted, 1 have happened"}}) {
    SmallWorld world(MakeTrainingJob(2));
    const std::vector<std::string> pods = {world.AddPod(0, {}, "n0"), world.AddPod(1, {}, "n0")};
    world.Write([&](TrainingJobStatus* status) {
      Place(0, "n0", pods[0], status);
      Place(1, "n0", pods[1], status);
    });
    for (const std::string& pod : pods) {
      world.SetPhase(pod, "Pending");
    }

    world.Write([count = counted](TrainingJobStatus* status) {
      status->attempt = status->attempt.Next();
      status->placement.clear();
      for (int i = 0; i < count; ++i) {
        CountIncident("start_timeout", status);
      }
    });

    ExpectVerdict(world, verdict, std::to_string(counted));
  }
}

// The server was asked for a pod that does not come to run before the status was written that gives
// it up, and it has come to run while that write was on its way.
TEST(Tolerance, PodThatRunsSinceItWasReadMayBeGivenUpAsOneThatDoesNot) {
  struct Row {
    std::string what;
    std::vector<std::string> phases;  // when it was read
    Duration since_then;
    bool is_asked_for;  // somebody asked for what happened to it before
    std::string verdict;
  };

  const std::string unharmed = "the gang was restarted though nothing had happened to it";
  const std::string too_many = "1 incidents are counted, 0 have happened";
  const std::vector<Row> rows = {
      {"it was not read", {}, seconds(0), false, unharmed},
      {"it ran by then", {"Running"}, seconds(0), false, unharmed},
      {"it ran when it was read again", {"Pending", "Running"}, seconds(0), false, unharmed},
      {"read 50 s ago", {"Pending"}, seconds(50), false, ""},
      {"read longer ago", {"Pending"}, milliseconds(50'001), false, unharmed},
      {"harmed, read 50 s ago", {"Pending"}, seconds(50), true, ""},
      {"harmed, read longer ago", {"Pending"}, milliseconds(50'001), true, too_many},
  };
  for (const Row& row : rows) {
    SmallWorld world(MakeTrainingJob(1));
    const std::string pod = world.AddPod(0, {}, "n0");
    world.Write([&](TrainingJobStatus* status) { Place(0, "n0", pod, status); });
    if (row.is_asked_for) {
      world.casualties()->NoteAlone(pod, /*is_free=*/true);
    }
    for (const std::string& phase : row.phases) {
      world.SetPhase(pod, phase);
      world.ReadPod(pod);
    }
    world.SetPhase(pod, "Running");
    world.context.now += row.since_then;

    world.Write([](TrainingJobStatus* status) {
      status->attempt = status->attempt.Next();
      status->placement.clear();
      status->restarts = WithRestart(std::move(status->restarts), "start_timeout");
      CountIncident("start_timeout", status);
    });

    ExpectVerdict(world, row.verdict, row.what);
  }
}

// A pod that was asked to go on a node that does not report is given up by a built-in training,
// whose epoch refuses whatever it still does. It is no second attempt when its node is back.
TEST(Tolerance, PodGivenUpWithItsNodeIsNoSecondAttemptOfABuiltInTraining) {
  struct Row {
    std::string what;
    TrainingJob job;
    bool is_asked_to_go;
    bool is_node_lost;
    std::string verdict;
  };

  const std::string two = "pods of two attempts live side by side";
  const std::vector<Row> rows = {
      {"given up", MakeTrainingJob(1), true, true, ""},
      {"a command, which nothing refuses", MakeCommandJob(1), true, true, two},
      {"nobody asked it to go", MakeTrainingJob(1), false, true, two},
      {"its node reported all the time", MakeTrainingJob(1), true, false, two},
  };
  for (const Row& row : rows) {
    SmallWorld world(row.job);
    const std::string old = world.AddPod(0, {}, "n0");
    world.Write([&](TrainingJobStatus* status) { Place(0, "n0", old, status); });
    if (row.is_asked_to_go) {
      world.AskToGo(old);
    }
    world.SetNodeReady("n0", !row.is_node_lost);
    world.Write([](TrainingJobStatus* status) {
      status->attempt = status->attempt.Next();
      status->placement.clear();
    });
    world.Write([](TrainingJobStatus* status) { Place(0, "n1", "", status); });
    world.AddPod(0, {Attempt(1), {}}, "n1");
    world.SetNodeReady("n0", true);

    ExpectVerdict(world, row.verdict, row.what);
  }
}

}  // namespace
}  // namespace lockstep::control::sim
