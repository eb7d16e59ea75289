#include "trainer-runtime/supervisor/process_table.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

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
  EXPECT_THAT(PidsOf(ReadProcessTable("/proc")), testing::Contains(::getpid()));
}

}  // namespace
}  // namespace lockstep::runtime
