// One seed replays one run:
//   LOCKSTEP_SEED=17 build/dev/bin/lockstep_runtime_parameter_server_sim_test

#include <cstdint>
#include <cstdlib>

#include <gtest/gtest.h>

#include "trainer-runtime/strategy/parameter_server/testing/sim_shards.h"

namespace lockstep::runtime {
namespace {

constexpr int kSeedCount = 1000;

struct Deaths {
  int servers = 0;
  int workers = 0;
};

bool RunSeed(uint64_t seed, Deaths* deaths) {
  testing::ShardWorld world(seed);
  world.Run();
  deaths->servers += world.server_deaths();
  deaths->workers += world.worker_deaths();
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << "replay with LOCKSTEP_SEED=" << seed << "\n" << world.Trace();
    return false;
  }
  return true;
}

TEST(ParameterServerSimulation, EachAcknowledgedPushIsAppliedOnceAndNobodyRunsTooFarAhead) {
  Deaths deaths;
  if (const char* seed = std::getenv("LOCKSTEP_SEED"); seed != nullptr) {
    RunSeed(std::strtoull(seed, nullptr, 10), &deaths);
    return;
  }
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    if (!RunSeed(seed, &deaths)) {
      return;
    }
  }
  EXPECT_GT(deaths.servers, kSeedCount / 2);
  EXPECT_GT(deaths.workers, kSeedCount / 2);
}

}  // namespace
}  // namespace lockstep::runtime
