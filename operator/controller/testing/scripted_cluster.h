#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/controller/controller.h"
#include "operator/reconcile/testing/fake_world.h"

namespace lockstep::control {

inline const JobId kKey{"default", "mnist"};

// Keeps one job in a TestWorld, notes what is asked of it, and fails on demand.
class ScriptedCluster final : public OneJobCluster {
 public:
  explicit ScriptedCluster(TrainingJob job) : world(std::move(job)) {}

  Result<JobSight> See(const JobId& key) const override {
    log += "read " + key.name + "\n";
    if (!read_status.ok()) {
      return read_status.error();
    }
    return JobSight{world.job, world.observed};
  }

  void Publish(const JobId& /*key*/, const Decision& decision) override {
    log += "publish " + EventReasons(decision) + "\n";
  }

  TestWorld world;
  Status read_status;
  Status write_status;
  Status effect_status;
  std::string failing_effect;  // as it is described; fails whatever `effect_status` is
  mutable std::string log;     // of queries, too

 private:
  Status WriteStatus(const TrainingJob& job) override {
    log += "write\n";
    if (write_status.ok()) {
      world.job.status = job.status;
    }
    return write_status;
  }

  std::vector<Status> ApplyEffects(const std::vector<Effect>& effects) override {
    std::vector<Status> answers;
    for (const Effect& effect : effects) {
      log += DescribeEffect(effect) + "\n";
      answers.push_back(DescribeEffect(effect) == failing_effect
                            ? Status(Error(ErrorCode::kUnavailable, "fails here"))
                            : effect_status);
    }
    return answers;
  }
};

class ControllerTest : public testing::Test {
 protected:
  explicit ControllerTest(TrainingJob job = MakeTrainingJob(1))
      : cluster_(std::move(job)),
        logger_(MakeNullLogger()),
        controller_(
            &cluster_, logger_.get(), Calendar(now_, WallTime(std::chrono::seconds(1'000'000)))) {}

  // Steps until nothing is due, and returns what the cluster was asked for.
  std::string Drain() {
    cluster_.log.clear();
    for (int i = 0; i < 10 && !controller_.Step(now_).empty(); ++i) {
    }
    return cluster_.log;
  }

  TimePoint now_{std::chrono::seconds(1000)};
  ScriptedCluster cluster_;
  std::unique_ptr<Logger> logger_;
  Controller controller_;
};

}  // namespace lockstep::control
