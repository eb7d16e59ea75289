#include "operator/view/object_cache.h"

#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include "common/contract/role.h"
#include "common/contract/topology.h"

namespace lockstep::control {
namespace {

TEST(RecentUids, HoldTheLargestGangThereMayBe) {
  RecentUids gone;
  const std::size_t count = kRoles.size() * static_cast<std::size_t>(kReplicasMax);
  for (std::size_t i = 0; i < count; ++i) {
    gone.Insert("uid-" + std::to_string(i));
  }
  EXPECT_TRUE(gone.Contains("uid-0"));
}

}  // namespace
}  // namespace lockstep::control
