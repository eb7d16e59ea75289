#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "common/contract/status/exit_code.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/controller/controller.h"
#include "operator/controller/testing/sim_cluster.h"
#include "operator/reconcile/testing/fake_world.h"

// The real controller, scheduler and reconcile code against a cluster that misbehaves by seed: pods
// die, hang and start slowly; the view lags; writes conflict, or succeed and say they did not;
// effects fail, or succeed and say they did not; the operator dies between any two calls.
//
// After every call: no task has two pods that nobody asked to end; pods of two attempts never live
// side by side; no pod stands where the stored status does not know of it; attempt, epoch and
// incarnations never decrease; every restart is counted in the very write that decides it; ends
// latch. When the faults stop the job ends well, and each death of a pod that counted has been
// counted once.

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;

const JobId kSimJob{"default", "mnist"};

// One seed: a time of faults, then a time of peace.
class Simulation {
 public:
  explicit Simulation(uint64_t seed)
      : prng_(seed ^ 0x5eedULL),
        logger_(MakeNullLogger()),
        cluster_(seed, MakeSimJob(), MakeAddressing()) {
    StartOperator();
  }

  SimCluster* cluster() { return &cluster_; }

  const SimCluster& cluster() const { return cluster_; }

  void RunFaults(int ticks) {
    for (int i = 0; i < ticks && cluster_.problem.empty(); ++i) {
      if (prng_.Below(200) == 0) {
        cluster_.Suspend(!cluster_.job().spec.run_policy.suspend);
      }
      Tick();
    }
  }

  // Without faults: until `is_done`, at most `ticks`. Returns whether it came.
  template <typename Predicate>
  bool RunPeace(int ticks, const Predicate& is_done) {
    cluster_.faults.are_on = false;
    cluster_.Suspend(false);
    for (int i = 0; i < ticks && cluster_.problem.empty(); ++i) {
      if (is_done()) {
        return true;
      }
      Tick();
    }
    return is_done();
  }

 private:
  TrainingJob MakeSimJob() {
    const int workers = 1 + static_cast<int>(prng_.Below(4));
    TrainingJob job = prng_.Below(2) == 0 ? MakeTrainingJob(workers) : MakeCommandJob(workers);
    job.spec.run_policy.backoff_limit = prng_.Below(4) == 0 ? 3 : 1000;
    job.spec.success_policy =
        prng_.Below(2) == 0 ? SuccessPolicy::kAllWorkers : SuccessPolicy::kChiefOrWorker0;
    return job;
  }

  Addressing MakeAddressing() {
    if (prng_.Below(2) == 0) {
      return LoopbackAddressing{"127.9.9"};
    }
    return DnsAddressing{};
  }

  void StartOperator() {
    cluster_.Restart();
    controller_.emplace(
        &cluster_, logger_.get(), Calendar(TimePoint(), WallTime(std::chrono::seconds(1'000'000))));
    controller_->Notify(kSimJob, now_);
  }

  void Tick() {
    now_ += milliseconds(50 + prng_.Below(300));
    cluster_.Tick();
    controller_->Notify(kSimJob, now_);
    for (int i = 0; i < 3 && !controller_->Step(now_).empty(); ++i) {
      if (cluster_.is_dead()) {
        StartOperator();
      }
    }
  }

  Prng prng_;
  std::unique_ptr<Logger> logger_;
  SimCluster cluster_;
  TimePoint now_{std::chrono::seconds(1000)};
  std::optional<Controller> controller_;
};

// What the seeds came to, together.
struct Tally {
  int64_t budgets_used_up = 0;
  int64_t casualties = 0;
  int64_t vanished = 0;
};

// Whether the gang may have started anew because a successor had waited for its peers in vain.
bool WasAnyoneLeftAlone(const TrainingJobStatus& status) {
  return status.attempt != Attempt(0) &&
         std::any_of(status.restarts.begin(), status.restarts.end(), [](const auto& restarts) {
           return restarts.cause == ExitCauseName(ExitCause::kUnreachable);
         });
}

void RunSeed(uint64_t seed, Tally* tally) {
  Simulation simulation(seed);
  SimCluster* const cluster = simulation.cluster();
  simulation.RunFaults(120);
  ASSERT_EQ(cluster->problem, "");
  tally->casualties += static_cast<int64_t>(cluster->casualties.size());
  tally->vanished += cluster->vanished;

  const auto has_ended = [&] { return HasEnded(cluster->job().status); };
  const bool has_settled =
      simulation.RunPeace(400, [&] { return has_ended() || cluster->GangRuns(); });
  ASSERT_EQ(cluster->problem, "");
  ASSERT_TRUE(has_settled) << "did not settle: " << cluster->Describe();
  const TrainingJobStatus& status = cluster->job().status;
  const int64_t counted = TotalRestarts(status);
  EXPECT_LE(cluster->published_restarts, counted) << "a metric moved before its fact was durable";
  if (has_ended()) {
    // Only a used-up budget ends a job here; nothing may be left running.
    ++tally->budgets_used_up;
    EXPECT_TRUE(IsTrue(cluster->job().status, ConditionType::kFailed));
    EXPECT_EQ(cluster->job().spec.run_policy.backoff_limit, 3) << cluster->Describe();
  } else if (cluster->job().spec.training.has_value() && !WasAnyoneLeftAlone(status)) {
    EXPECT_EQ(counted, static_cast<int64_t>(cluster->casualties.size())) << cluster->Describe();
  } else {
    // One restart of a gang answers for all of its members' deaths.
    EXPECT_LE(counted, static_cast<int64_t>(cluster->casualties.size())) << cluster->Describe();
  }
  cluster->FinishWork();
  const bool is_clean =
      simulation.RunPeace(400, [&] { return has_ended() && cluster->live_pod_count() == 0; });
  ASSERT_EQ(cluster->problem, "");
  ASSERT_TRUE(is_clean) << "did not end: " << cluster->Describe();
}

TEST(ControllerSimulation, PromisesHoldForEverySeed) {
  constexpr uint64_t kSeedCount = 1000;
  Tally tally;
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RunSeed(seed, &tally);
    if (HasFailure()) {
      FAIL() << "replay: RunSeed(" << seed << ")";
    }
  }
  // Everything that can happen has happened often, or the simulation says less than it seems to.
  EXPECT_GT(tally.budgets_used_up, static_cast<int64_t>(kSeedCount / 20));
  EXPECT_LT(tally.budgets_used_up, static_cast<int64_t>(kSeedCount / 2));
  EXPECT_GT(tally.casualties, static_cast<int64_t>(kSeedCount * 2));
  EXPECT_GT(tally.vanished, static_cast<int64_t>(kSeedCount / 10));
}

}  // namespace
}  // namespace lockstep::control
