#include "operator/controller/control_loop.h"

#include <chrono>
#include <optional>

#include <gtest/gtest.h>

#include "operator/controller/testing/fake_api.h"

namespace lockstep::control {
namespace {

class ControlLoopTest : public testing::Test, protected ApiClusterWorld {
 protected:
  // What is to be asked of the job's pods from now on; null: as before.
  std::optional<std::size_t> TargetsOfMnist() {
    for (const ControlLoop::PollChange& change : loop_.TakePollChanges()) {
      if (change.job == kMnist) {
        return change.targets.size();
      }
    }
    return std::nullopt;
  }

  // Lets the job have a turn.
  void Turn() {
    now_ += std::chrono::minutes(1);
    while (loop_.Step(now_).empty()) {
      ASSERT_FALSE(api_.answers.empty());
      loop_.Accept(std::move(api_.answers.front()));
      api_.answers.pop_front();
    }
  }

  TimePoint now_{std::chrono::seconds(1000)};
  ControlLoop loop_{{}, {&api_, &control_, &publisher_, logger_.get()}, now_, WallTime{}};
};

TEST_F(ControlLoopTest, PodsOfAJobThatIsGoneAreNotAskedAfterTheLeadIsLost) {
  const auto job = kube::DecodeRaw(JobBody("10")).value();
  Json pod = ParseJson(PodBody(job_.metadata.uid)).value();
  pod["status"]["podIP"] = "10.0.0.1";
  loop_.Apply(kube::ObjectUpdate<kube::RawObject>(kube::Upserted<kube::RawObject>{job}), now_);
  loop_.Apply(kube::ObjectUpdate<kube::Pod>(
                  kube::Upserted<kube::Pod>{kube::DecodePod(DumpJson(pod)).value()}),
              now_);
  loop_.Lead("master", now_);
  Turn();
  ASSERT_EQ(TargetsOfMnist(), 1U);

  loop_.Apply(kube::ObjectUpdate<kube::RawObject>(kube::Deleted<kube::RawObject>{job}), now_);
  loop_.StandBy(now_);
  EXPECT_EQ(TargetsOfMnist(), 0U);
}

}  // namespace
}  // namespace lockstep::control
