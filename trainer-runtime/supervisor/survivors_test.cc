#include "trainer-runtime/supervisor/survivors.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

// Rank N of a look is the only one of local rank N. Each has called that many collectives, and
// waits in the newest where that is negative.
HangLook LookAt(const std::vector<int>& ranks) {
  HangLook look;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankEvidence rank;
    rank.rank = static_cast<int>(i);
    const int called = ranks[i] < 0 ? -ranks[i] : ranks[i];
    rank.groups = {{"pg", "group pg", called, ranks[i] < 0 ? called : 0, "all_reduce"}};
    look.ranks.push_back(rank);
    look.local_ranks[rank.rank] = rank.rank;
  }
  return look;
}

TEST(JudgeSurvivors, WhoWaitsInTheSameCollectiveAtBothLooksWaits) {
  using enum SurvivorState;
  const std::vector<bool> all_catch = {true, true, true};
  EXPECT_EQ(JudgeSurvivors(LookAt({-7, -6, 7}), LookAt({-7, -7, 7}), all_catch),
            (std::vector<SurvivorState>{kWaits, kWorks, kWorks}));
  EXPECT_EQ(JudgeSurvivors({}, LookAt({-7, -7, 7}), all_catch),
            (std::vector<SurvivorState>{kUnknown, kUnknown, kUnknown}));
}

// It dies of the signal, or ignores it: in both cases it saves nothing.
TEST(JudgeSurvivors, WhoDoesNotHandleTheSignalDoesNotWork) {
  using enum SurvivorState;
  EXPECT_EQ(JudgeSurvivors(LookAt({7, -7}), LookAt({7, -7}), {false, false}),
            (std::vector<SurvivorState>{kUnknown, kWaits}));
}

// As of a torchrun.
TEST(JudgeSurvivors, AProcessWithSeveralRanksWaitsIfAllOfThemDo) {
  using enum SurvivorState;
  HangLook look = LookAt({-7, 7, -7, -7});
  look.local_ranks = {{0, 0}, {1, 0}, {2, 1}, {3, 1}};
  EXPECT_EQ(JudgeSurvivors(look, look, {true, true}), (std::vector<SurvivorState>{kWorks, kWaits}));
}

// Answers as lockstep_hang does, and handles SIGTERM. WAITS: whether it is in a collective.
constexpr const char* kSurvivor = R"py(
import json, os, signal, socket, threading, time
rank = int(os.environ["RANK"])
server = socket.socket(socket.AF_UNIX)
server.bind("\0%s-%d" % (os.environ["LOCKSTEP_HANG_SOCKET"], os.getpid()))
server.listen()
def answer():
  while True:
    connection, _ = server.accept()
    group = {"id": "pg", "name": "group pg", "called": 7, "waitsIn": 7 if WAITS else 0,
             "operation": "all_reduce"}
    connection.sendall(json.dumps({"rank": rank, "place": "", "groups": [group]}).encode())
    connection.close()
threading.Thread(target=answer, daemon=True).start()
def stop(*_):
  if WAITS: return
  time.sleep(SAVING)
  print("has saved", flush=True)
  os._exit(0)
signal.signal(signal.SIGTERM, stop)
open(f"{os.environ['PLACE']}/{rank}", "w").close()
while rank == 1 and not os.path.exists(f"{os.environ['PLACE']}/0"): time.sleep(0.01)
if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
while True: time.sleep(0.05)
)py";

class SurvivorsTest : public SupervisorTest {
 protected:
  int Run(const std::string& constants) {
    logger_ = std::move(MakeFileLogger(directory_ + "/log")).value();
    options_.logger = logger_.get();
    UseProcesses(2);
    for (SupervisedProcess& process : options_.processes) {
      process.environment["PLACE"] = directory_;
    }
    options_.command = {"python3", "-c", constants + kSurvivor};
    return SupervisorTest::Run();
  }

  std::string Log() const { return ReadFile(directory_ + "/log", kFileMax).value(); }
};

TEST_F(SurvivorsTest, WhoWaitsInACollectiveIsKilledBeforeItsTimeIsOver) {
  EXPECT_EQ(Run("WAITS = True; SAVING = 0"), kExitSignalBase + SIGKILL);
  EXPECT_THAT(Log(), HasSubstr("it waits in a collective that cannot complete"));
  EXPECT_THAT(Log(), Not(HasSubstr("grace period is over")));
  EXPECT_EQ(Message().culprit_rank, 1);
  EXPECT_EQ(Message().reason, "killed by SIGKILL");
}

TEST_F(SurvivorsTest, WhoSavesHasItsGrace) {
  EXPECT_EQ(Run("WAITS = False; SAVING = 5"), kExitSignalBase + SIGKILL);
  EXPECT_THAT(seen_, HasSubstr("has saved"));
  EXPECT_EQ(Message().culprit_rank, 1);
}

TEST_F(SurvivorsTest, WhoSavesForTooLongIsKilled) {
  options_.grace = std::chrono::seconds(5);
  EXPECT_EQ(Run("WAITS = False; SAVING = 1000"), kExitSignalBase + SIGKILL);
  EXPECT_THAT(Log(), HasSubstr("grace period is over"));
}

}  // namespace
}  // namespace lockstep::runtime
