// One seed replays one run:
//   LOCKSTEP_SEED=17 build/dev/bin/lockstep_runtime_membership_sim_test

#include <cstdint>
#include <cstdlib>

#include <gtest/gtest.h>

#include "trainer-runtime/rendezvous/testing_membership.h"

namespace lockstep::runtime {
namespace {

constexpr int kSeedCount = 3000;

bool RunSeed(uint64_t seed) {
  testing::World world(seed, 2 + static_cast<int>(seed % 4));
  world.Run();
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << "replay with LOCKSTEP_SEED=" << seed << "\n" << world.Trace();
    return false;
  }
  return true;
}

TEST(MembershipSimulation, EveryLiveRankMeetsAtOneEpochAndNoZombieGetsIn) {
  if (const char* seed = std::getenv("LOCKSTEP_SEED"); seed != nullptr) {
    RunSeed(std::strtoull(seed, nullptr, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    if (!RunSeed(seed)) {
      return;
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
