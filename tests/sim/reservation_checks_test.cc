#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/testing/small_world.h"

// Who may pass an older one that waits, to the second, and how long the first of a queue waits.
namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kHolder = "j";
constexpr const char* kWaiting = "k";
constexpr const char* kPasser = "p";

// Of `workers` pods of four GPUs, which is a node.
TrainingJob JobOf(int workers, std::optional<seconds> limit, const std::string& recipe = "") {
  TrainingJob job = MakeCommandJob(workers);
  job.spec.roles[0].gpus = 4;
  job.spec.run_policy.active_deadline = limit;
  if (!recipe.empty()) {
    job.metadata.labels[kRecipeLabel] = recipe;
  }
  return job;
}

void Start(SmallWorld* world, const std::string& name, const std::string& node) {
  world->Write(name, [&](TrainingJobStatus* status) {
    status->observed_generation = 1;
    status->start_time = world->context.ServerTime();
    Place(0, node, "", status);
  });
}

void LetWait(SmallWorld* world, const std::string& name) {
  world->Write(name, [&](TrainingJobStatus* status) {
    status->observed_generation = 1;
    SetCondition(status,
                 {ConditionType::kScheduled, false, "Unschedulable", "needs 8 GPUs"},
                 world->context.ServerTime());
  });
}

void End(SmallWorld* world, const std::string& name) {
  world->Write(name, [&](TrainingJobStatus* status) {
    status->completion_time = world->context.ServerTime();
    status->placement.clear();
  });
}

// A run of the recipe that took so long, and is over.
void RunOnce(SmallWorld* world, const std::string& name, seconds run_time) {
  world->CreateJob(name, JobOf(1, std::nullopt, "r"));
  Start(world, name, "n1");
  world->context.now += run_time;
  End(world, name);
}

struct PassingRow {
  std::string what;
  std::optional<seconds> limit_of_holder;
  int runs;  // of 100 s of the holder's recipe
  std::optional<seconds> limit_of_passer;
  bool may_pass;
};

// One holds a node, an older one waits for two, and a younger one starts on the other, a minute
// after the first.
TEST(ReservationCheck, YoungerGangPassesWhereItIsStoppedInTime) {
  const std::vector<PassingRow> rows = {
      {"stopped together", seconds(600), 0, seconds(540), true},
      {"20 s later, which a grant may take", seconds(600), 0, seconds(560), true},
      {"later", seconds(600), 0, seconds(561), false},
      {"never stopped", seconds(600), 0, std::nullopt, false},
      {"behind one without a limit", std::nullopt, 0, seconds(60), false},
      {"of which one run is known", std::nullopt, 1, seconds(20), false},
      {"of which two are, stopped by then", std::nullopt, 2, seconds(50), true},
      {"of which two are, stopped later", std::nullopt, 2, seconds(200), false},
      {"what is likely moves no limit", seconds(600), 2, seconds(560), true},
      {"nor puts it off", seconds(600), 2, seconds(561), false},
  };
  for (const PassingRow& row : rows) {
    SmallWorld world(JobOf(1, row.limit_of_holder, "r"));
    world.context.learns_run_times = true;
    for (int i = 0; i < row.runs; ++i) {
      RunOnce(&world, "r" + std::to_string(i), seconds(100));
    }
    world.CreateJob(kWaiting, JobOf(2, std::nullopt));
    world.CreateJob(kPasser, JobOf(1, row.limit_of_passer));
    LetWait(&world, kWaiting);
    world.checks.CheckWorld();
    world.BeAtPeace();
    world.context.now += minutes(5);
    ASSERT_EQ(world.checks.problem(), "") << row.what;
    Start(&world, kHolder, "n0");
    world.context.now += minutes(1);
    Start(&world, kPasser, "n1");
    const std::string& problem = world.checks.problem();
    EXPECT_EQ(problem.empty(), row.may_pass) << row.what << ": " << problem;
    EXPECT_TRUE(row.may_pass || problem.ends_with("took the place of k, which is older and waits"))
        << row.what << ": " << problem;
  }
}

// One waits for a node. Others hold half of n0 and, younger than it, half of n1. Another takes the
// rest of n0 for long: n1 is there as soon, where the end of its gang is known as well.
TEST(ReservationCheck, YoungerGangPassesWhereItLeavesTheRoomThatEarlierRunsTell) {
  for (const auto& [recipe, verdict] : std::vector<std::pair<std::string, std::string>>{
           {"r", ""}, {"", "took the place of k, which is older and waits"}}) {
    const auto half_of = [](std::optional<seconds> limit, const std::string& kind) {
      TrainingJob job = JobOf(1, limit, kind);
      job.spec.roles[0].gpus = 2;
      return job;
    };
    SmallWorld world(half_of(std::nullopt, "r"));
    world.context.learns_run_times = true;
    RunOnce(&world, "r0", seconds(100));
    RunOnce(&world, "r1", seconds(100));
    world.CreateJob(kWaiting, JobOf(1, std::nullopt));
    world.CreateJob("h", half_of(std::nullopt, recipe));
    world.CreateJob(kPasser, half_of(minutes(60), ""));
    LetWait(&world, kWaiting);
    world.checks.CheckWorld();
    world.BeAtPeace();
    world.context.now += minutes(5);
    Start(&world, kHolder, "n0");
    Start(&world, "h", "n1");
    world.context.now += minutes(1);
    ASSERT_EQ(world.checks.problem(), "");
    Start(&world, kPasser, "n0");

    ExpectVerdict(world, verdict, recipe.empty() ? "unknown" : "known");
  }
}

// A worker is done, whose half of a node a job waits for; a younger one takes the other half.
TEST(ReservationCheck, RoundMayNotHaveKnownOfAWorkerThatIsJustDone) {
  const auto halves = [](int workers, std::optional<seconds> limit) {
    TrainingJob job = JobOf(workers, limit);
    job.spec.roles[0].gpus = 2;
    return job;
  };
  for (const auto& [after, verdict] : std::vector<std::pair<Duration, std::string>>{
           {kViewLag - milliseconds(1), ""},
           {kViewLag, "took the place of j, which is older and waits"}}) {
    SmallWorld world(JobOf(1, std::nullopt));
    world.CreateJob("h", halves(2, minutes(20)));
    world.CreateJob(kPasser, halves(1, minutes(10)));
    world.Write("h", [&](TrainingJobStatus* status) {
      status->observed_generation = 1;
      status->start_time = world.context.ServerTime();
      Place(0, "n0", "", status);
      Place(1, "n1", "", status);
    });
    LetWait(&world, "j");
    world.checks.CheckWorld();
    world.BeAtPeace();
    world.context.now += minutes(5);
    ASSERT_EQ(world.checks.problem(), "");
    world.Write("h", [](TrainingJobStatus* status) { status->placement[1].is_completed = true; });
    world.context.now += after;
    Start(&world, kPasser, "n1");

    ExpectVerdict(world, verdict, "a worker that is done");
  }
}

TEST(ReservationCheck, FirstOfAQueueStartsWhenEverythingHasBeenStopped) {
  const std::string starved =
      "k: is the first of its queue, and waits though everything has been stopped that ran when it "
      "came to be";
  constexpr seconds kLimit{100};
  for (const auto& [after, verdict] : std::vector<std::pair<Duration, std::string>>{
           {kLimit + seconds(30 + 180), ""}, {milliseconds(310'001), starved}}) {
    SmallWorld world(JobOf(1, kLimit));
    world.CreateJob(kWaiting, JobOf(2, std::nullopt));
    LetWait(&world, kWaiting);
    world.checks.CheckWorld();
    world.BeAtPeace();
    world.context.now += minutes(2);
    Start(&world, kHolder, "n0");
    world.checks.CheckWorld();
    ASSERT_EQ(world.checks.problem(), "");
    world.context.now += kLimit;
    End(&world, kHolder);
    world.context.now += after - kLimit;
    world.checks.CheckWorld();

    ExpectVerdict(world, verdict, "starves");
  }
}

}  // namespace
}  // namespace lockstep::control::sim
