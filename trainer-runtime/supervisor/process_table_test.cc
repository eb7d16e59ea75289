#include "trainer-runtime/supervisor/process_table.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

std::vector<pid_t> PidsOf(const std::vector<ProcessStat>& table) {
  std::vector<pid_t> pids;
  for (const ProcessStat& stat : table) {
    pids.push_back(stat.pid);
  }
  return pids;
}

ProcessStat Stat(pid_t pid, pid_t parent, pid_t group) {
  ProcessStat stat;
  stat.pid = pid;
  stat.parent = parent;
  stat.group = group;
  return stat;
}

TEST(ParseProcessStat, TakesTheNameForWhatItIs) {
  const auto stat =
      ParseProcessStat("42 (a) S 1 (b) T 7 41 41 0 -1 4194304 9 9 9 9 100 20 3 4 20 0 3 0 123 456",
                       milliseconds(10));
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(*stat, (ProcessStat{42, 7, 41, 'T', 3, milliseconds(1270)}));
}

TEST(ParseProcessStat, RefusesWhatIsCutShort) {
  for (const char* line : {"", "42", "42 (a", "42 (a) S 1 2 3", "x (a) S 1"}) {
    EXPECT_FALSE(ParseProcessStat(line, milliseconds(10)).has_value()) << line;
  }
}

TEST(FamilyOf, IsWhatDescendsFromTheLeaderAndWhatIsInItsGroup) {
  const std::vector<ProcessStat> table = {
      Stat(31, 30, 31),   // a session of its own below a child, listed before its parent
      Stat(10, 1, 10),    // the leader
      Stat(30, 10, 10),   // its child
      Stat(40, 1, 10),    // of its group, whose parent has ended
      Stat(11, 1, 11),    // another
      Stat(50, 11, 11)};  // and its child
  EXPECT_THAT(PidsOf(FamilyOf(table, 10)), ElementsAre(31, 10, 30, 40));
}

TEST(AdoptedBy, IsWhatDescendsFromChildrenThatTheParentHasNotStarted) {
  const std::vector<ProcessStat> table = {Stat(31, 30, 31),  // below an orphan
                                          Stat(10, 2, 10),   // a program
                                          Stat(11, 10, 10),  // its child
                                          Stat(12, 2, 12),   // a helper
                                          Stat(30, 2, 29),   // an orphan
                                          Stat(50, 1, 50)};  // somebody's
  EXPECT_THAT(PidsOf(AdoptedBy(table, 2, {10, 12})), ElementsAre(31, 30));
  EXPECT_THAT(AdoptedBy({}, 2, {10, 12}), testing::IsEmpty());
}

TEST(ReadProcessTable, HasThisProcess) {
  const std::vector<ProcessStat> table = ReadProcessTable("/proc");
  const auto own = std::find_if(
      table.begin(), table.end(), [](const ProcessStat& stat) { return stat.pid == ::getpid(); });
  ASSERT_NE(own, table.end());
  EXPECT_EQ(own->parent, ::getppid());
  EXPECT_EQ(own->group, ::getpgrp());
  EXPECT_EQ(own->state, 'R');
}

}  // namespace
}  // namespace lockstep::runtime
