#include "trainer-runtime/supervisor/process/process_table.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

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

TEST(FamilyOf, IsWhatDescendsFromTheLeaderAndWhatIsInItsGroup) {
  const std::vector<ProcessStat> table = {
      StatOf(31, 30, 31),   // a session of its own below a child, listed before its parent
      StatOf(10, 1, 10),    // the leader
      StatOf(30, 10, 10),   // its child
      StatOf(40, 1, 10),    // of its group, whose parent has ended
      StatOf(11, 1, 11),    // another
      StatOf(50, 11, 11)};  // and its child
  EXPECT_THAT(PidsOf(FamilyOf(table, 10)), ElementsAre(31, 10, 30, 40));
}

TEST(AdoptedBy, IsWhatDescendsFromChildrenThatTheParentHasNotStarted) {
  const std::vector<ProcessStat> table = {StatOf(31, 30, 31),  // below an orphan
                                          StatOf(10, 2, 10),   // a program
                                          StatOf(11, 10, 10),  // its child
                                          StatOf(12, 2, 12),   // a helper
                                          StatOf(30, 2, 29),   // an orphan
                                          StatOf(50, 1, 50)};  // somebody's
  EXPECT_THAT(PidsOf(AdoptedBy(table, 2, {10, 12})), ElementsAre(31, 30));
  EXPECT_THAT(AdoptedBy({}, 2, {10, 12}), testing::IsEmpty());
}

TEST(ReadProcessTable, HasThisProcess) {
  EXPECT_THAT(PidsOf(ReadProcessTable("/proc")), testing::Contains(::getpid()));
}

}  // namespace
}  // namespace lockstep::runtime
