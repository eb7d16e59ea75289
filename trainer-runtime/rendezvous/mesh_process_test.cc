// Ranks as real processes that are killed, stopped and continued.

#include <csignal>
#include <fcntl.h>
#include <map>
#include <memory>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "common/base/testing/paths.h"
#include "trainer-runtime/rendezvous/mesh.h"
#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr Duration kPatience = std::chrono::seconds(30);  // far above what anything here takes

// What the product promises for a stopped process, and room for a machine that does other things.
constexpr Duration kSilenceNoticedWithin = std::chrono::seconds(2);
constexpr Duration kSchedulingSlack = std::chrono::seconds(1);

// A running mesh_member. Ends with this object, in whatever state it is.
class Member {
 public:
  Member(int rank, int incarnation, int epoch, const std::vector<std::string>& addresses) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    const UniqueFd write_end(ends[1]);
    std::vector<std::string> words = {BuiltFile("bin/lockstep_mesh_member"),
                                      std::to_string(rank),
                                      std::to_string(incarnation),
                                      std::to_string(epoch)};
    words.insert(words.end(), addresses.begin(), addresses.end());
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    EXPECT_EQ(::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), environ),
              0);
    posix_spawn_file_actions_destroy(&actions);
  }

  ~Member() { Kill(); }

  // Returns when it is gone, so that its port is free.
  void Kill() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      (void)::waitpid(std::exchange(pid_, -1), nullptr, 0);
    }
  }

  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void Signal(int number) { (void)::kill(pid_, number); }

  // Its next line; fails the test when none comes.
  std::string NextLine() {
    const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
    while (text_.find('\n') == std::string::npos) {
      pollfd readable{output_.get(), POLLIN, 0};
      char buffer[256];
      const int ready = ::poll(&readable, 1, deadline.RemainingMilliseconds(SteadyNow()));
      const ssize_t got = ready == 1 ? ::read(output_.get(), buffer, sizeof(buffer)) : 0;
      if (got <= 0) {
        ADD_FAILURE() << "no more lines after \"" << text_ << "\"";
        return text_;
      }
      text_.append(buffer, static_cast<std::size_t>(got));
    }
    const std::size_t end = text_.find('\n');
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;
};

// Three ranks that have met at epoch 0. Each run has a loopback address of its own, so that a
// port released by a killed rank is free for its replacement.
class MeshProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    {
      std::vector<UniqueFd> probes;  // all at once: a port that is free again may come back
      for (int rank = 0; rank < 3; ++rank) {
        probes.push_back(Probe());
        addresses_.push_back(AddressOf(probes.back()));
      }
    }
    for (int rank = 0; rank < 3; ++rank) {
      Spawn(rank, 0, 0);
    }
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(members_[rank]->NextLine(), StartsWith("met 0 "));
    }
  }

  void Spawn(int rank, int incarnation, int epoch) {
    members_[rank] = std::make_unique<Member>(rank, incarnation, epoch, addresses_);
  }

  static std::string Host() {
    const int pid = ::getpid();
    return "127." + std::to_string(1 + pid / 256 % 250) + "." + std::to_string(pid % 256) + ".1";
  }

  // Listens on a port that was free.
  static UniqueFd Probe() { return ListenOn(Host(), 0, 1).value(); }

  static std::string AddressOf(const UniqueFd& probe) {
    return Host() + ":" + std::to_string(BoundPort(probe).value());
  }

  std::vector<std::string> addresses_;
  std::map<int, std::unique_ptr<Member>> members_;
};

TEST_F(MeshProcesses, KilledProcessIsNoticedAtOnceAndItsReplacementMeets) {
  const TimePoint killed = SteadyNow();
  members_[1]->Kill();
  EXPECT_EQ(members_[0]->NextLine(), "lost 1 closed");
  EXPECT_EQ(members_[2]->NextLine(), "lost 1 closed");
  RecordProperty("notice_ms", std::to_string(1e3 * ToSeconds(SteadyNow() - killed)));
  Spawn(1, 1, 1);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(members_[rank]->NextLine(), StartsWith("met 1 ")) << rank;
  }
}

TEST_F(MeshProcesses, StoppedProcessIsNoticedInTime) {
  const TimePoint stopped = SteadyNow();
  members_[2]->Signal(SIGSTOP);
  EXPECT_EQ(members_[0]->NextLine(), "lost 2 silent");
  EXPECT_EQ(members_[1]->NextLine(), "lost 2 silent");
  const Duration took = SteadyNow() - stopped;
  RecordProperty("notice_ms", std::to_string(1e3 * ToSeconds(took)));
  EXPECT_LT(took, kSilenceNoticedWithin + kSchedulingSlack);
}

TEST_F(MeshProcesses, StoppedProcessThatNobodyReplacedComesBack) {
  members_[2]->Signal(SIGSTOP);
  EXPECT_EQ(members_[0]->NextLine(), "lost 2 silent");
  EXPECT_EQ(members_[1]->NextLine(), "lost 2 silent");
  members_[2]->Signal(SIGCONT);
  EXPECT_THAT(members_[2]->NextLine(), MatchesRegex("lost [01] (closed|moved_on)"));
  const std::string met = members_[2]->NextLine();
  EXPECT_THAT(met, StartsWith("met "));
  EXPECT_THAT(members_[0]->NextLine(), StartsWith(met.substr(0, met.rfind(' '))));
  EXPECT_THAT(members_[1]->NextLine(), StartsWith(met.substr(0, met.rfind(' '))));
}

TEST_F(MeshProcesses, StoppedProcessThatWasReplacedLearnsThatItIsAZombie) {
  std::unique_ptr<Member> zombie = std::move(members_[1]);
  zombie->Signal(SIGSTOP);
  EXPECT_EQ(members_[0]->NextLine(), "lost 1 silent");
  EXPECT_EQ(members_[2]->NextLine(), "lost 1 silent");
  // The zombie still holds the old address, as a pod on a lost node does: the newcomer calls.
  const std::vector<std::string> before = addresses_;
  addresses_[1] = AddressOf(Probe());
  Spawn(1, 1, 1);
  addresses_ = before;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(members_[rank]->NextLine(), StartsWith("met ")) << rank;
  }
  zombie->Signal(SIGCONT);
  EXPECT_THAT(zombie->NextLine(), MatchesRegex("lost [02] (closed|moved_on)"));
  EXPECT_EQ(zombie->NextLine(), "stale");
}

}  // namespace
}  // namespace lockstep::runtime
