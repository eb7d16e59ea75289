#include "operator/view/stored/object_cache.h"

#include <cstddef>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "common/contract/environment/role.h"
#include "common/contract/environment/topology.h"

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

kube::Item<int> Thing(const std::string& version) {
  return {{"default", "a"}, "uid-a", version, std::make_shared<const int>(1)};
}

// A label was taken off and put back.
TEST(ObjectCache, WhatLeftTheWatchMayComeBackToIt) {
  ObjectCache<int> cache;
  cache.Put(Thing("8"), Source::kWatch);
  cache.Remove({"default", "a"}, "uid-a", "9");
  EXPECT_TRUE(cache.IsKnownGone("uid-a"));
  cache.Put(Thing("9"), Source::kWatch);
  EXPECT_EQ(cache.Find({"default", "a"}), nullptr) << "no newer than its removal";
  cache.Put(Thing("10"), Source::kReply);
  EXPECT_EQ(cache.Find({"default", "a"}), nullptr) << "a reply may be late";

  cache.Put(Thing("11"), Source::kWatch);
  EXPECT_NE(cache.Find({"default", "a"}), nullptr);
  EXPECT_FALSE(cache.IsKnownGone("uid-a"));
}

// The list was served by an API server that lags behind the one before.
TEST(ObjectCache, WhatAnOlderListLackedComesBackAsItWas) {
  ObjectCache<int> cache;
  cache.Put(Thing("8"), Source::kWatch);
  std::vector<kube::ObjectKey> doubtful;
  cache.Replace({}, &doubtful);
  EXPECT_EQ(cache.Find({"default", "a"}), nullptr);
  cache.Put(Thing("7"), Source::kWatch);
  EXPECT_EQ(cache.Find({"default", "a"}), nullptr) << "the watch goes over what it had shown";

  cache.Put(Thing("8"), Source::kWatch);
  EXPECT_NE(cache.Find({"default", "a"}), nullptr);
}

TEST(ObjectCache, WhatIsGoneForGoodNeverComesBack) {
  ObjectCache<int> cache;
  cache.Put(Thing("8"), Source::kWatch);
  cache.Remove({"default", "a"}, "uid-a", "9");
  cache.Remove({"default", "a"}, "uid-a");  // the server says so
  cache.Put(Thing("11"), Source::kWatch);
  EXPECT_EQ(cache.Find({"default", "a"}), nullptr);
}

}  // namespace
}  // namespace lockstep::control
