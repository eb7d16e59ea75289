#include "trainer-runtime/supervisor/oom_kills.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(OomKills, AreReadFromTheirOwnLine) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n"), 2);
  EXPECT_EQ(ParseOomKills("oom_kill 7"), 7);
}

TEST(OomKills, AreUnknownWhereNobodySaysThem) {
  for (const char* events : {"", "\n", "oom 3\n", "oom_kill \n", "oom_kill x\n"}) {
    EXPECT_EQ(ParseOomKills(events), std::nullopt) << events;
  }
  EXPECT_EQ(OomKills("/nowhere/memory.events"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::runtime
