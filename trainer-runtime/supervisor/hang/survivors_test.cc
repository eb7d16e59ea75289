#include "trainer-runtime/supervisor/hang/survivors.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/supervisor_test_support.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

// Where a rank is: in a call of torch.distributed, with a collective that is open, or in neither.
enum class At { kCall, kOpen, kNothing };

// Rank N of a look is that of local rank N. Each has called `called` collectives.
HangLook LookAt(const std::vector<At>& ranks, int called = 7) {
  HangLook look;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankEvidence rank;
    rank.rank = static_cast<int>(i);
    rank.groups = {{"pg", "group pg", called, ranks[i] == At::kOpen ? called : 0, "all_reduce"}};
    if (ranks[i] == At::kCall) {
      rank.groups.push_back({"call-" + std::to_string(i), "calls of the rank", 1, 1, "recv"});
    }
    look.ranks.push_back(rank);
    look.local_ranks[rank.rank] = rank.rank;
  }
  return look;
}

using States = std::vector<std::optional<SurvivorState>>;

TEST(JudgeSurvivors, OnlyWhoIsInACallAtBothLooksGetsToNoHandler) {
  using enum SurvivorState;
  const HangLook look = LookAt({At::kCall, At::kOpen, At::kNothing});
  const std::vector<bool> all_catch = {true, true, true};
  EXPECT_EQ(JudgeSurvivors(look, look, all_catch), (States{kCalls, kUnknown, kWorks}))
      << "with NCCL, the main thread of the second may be saving, or wait for the device";
  EXPECT_EQ(JudgeSurvivors(LookAt({At::kCall, At::kOpen, At::kNothing}, 6), look, all_catch),
            (States{kWorks, kWorks, kWorks}))
      << "they have gone on in between";
}

TEST(JudgeSurvivors, NothingIsSaidOfWhoWasNotHeardTwice) {
  const HangLook look = LookAt({At::kCall, At::kNothing});
  EXPECT_EQ(JudgeSurvivors({}, look, {true, true}), (States{std::nullopt, std::nullopt}));
  EXPECT_EQ(JudgeSurvivors(look, {}, {true, true}), (States{std::nullopt, std::nullopt}));
}

// It dies of the signal, or ignores it: in both cases it saves nothing.
TEST(JudgeSurvivors, WhoDoesNotHandleTheSignalDoesNotWork) {
  using enum SurvivorState;
  const HangLook look = LookAt({At::kNothing, At::kCall});
  EXPECT_EQ(JudgeSurvivors(look, look, {false, false}), (States{kUnknown, kCalls}));
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
    group = {"id": f"call-{rank}" if WAITS else "pg", "name": "group pg", "called": 7,
             "waitsIn": 7 if WAITS else 0, "operation": "all_reduce"}
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
  EXPECT_THAT(Log(), HasSubstr("it is in a call of torch.distributed that cannot complete"));
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
