#include "trainer-runtime/supervisor/hang/hang_court.h"

#include <cstddef>
#include <cstring>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/base/io/unique_fd.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

constexpr std::chrono::seconds kCourtLimit{10};

RankEvidence Waiting(int rank, int64_t number) {
  return {rank, false, false, "", {{"pg", "group pg", number, number, "all_reduce"}}};
}

RankEvidence Behind(int rank, int64_t called) {
  return {rank, false, false, "load (a.py:1)", {{"pg", "group pg", called, 0, "all_reduce"}}};
}

// Local rank 0 is rank 4, and so on.
HangLook LookAt(std::vector<RankEvidence> ranks) {
  HangLook look;
  for (const RankEvidence& rank : ranks) {
    look.local_ranks[rank.rank] = rank.rank - 4;
  }
  look.ranks = std::move(ranks);
  return look;
}

class HangCourtTest : public testing::Test {
 protected:
  // A court that sees `looks` one after the other, the last one again and again.
  void Hold(std::vector<HangLook> looks) {
    looks_ = std::move(looks);
    options_.limit = kCourtLimit;
    options_.between = Duration(0);
    options_.look = [this](const auto&) {
      const std::size_t index = std::min<std::size_t>(taken_++, looks_.size() - 1);
      return looks_[index];
    };
    court_.emplace(options_);
  }

  // Looks after `passed`, and again and again while the court sits.
  std::optional<HangFinding> LookAfter(Duration passed, int64_t reports = 1, bool stepped = true) {
    now_ += passed;
    std::optional<HangFinding> finding = court_->Look(now_, reports, stepped, {{1}, {2}});
    const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::seconds(30));
    while (IsSitting() && !deadline.HasPassed(SteadyNow())) {
      ::usleep(1000);
      finding = court_->Look(now_, reports, stepped, {{1}, {2}});
    }
    EXPECT_FALSE(IsSitting());
    return finding;
  }

  // For nothing else would it be reserved for so long.
  bool IsSitting() const { return court_->Reserves(now_ + std::chrono::hours(1)); }

  HangCourtOptions options_;
  std::vector<HangLook> looks_;
  std::atomic<int> taken_ = 0;
  TimePoint now_ = SteadyNow();
  std::optional<HangCourt> court_;
};

TEST_F(HangCourtTest, NamesTheRankThatOthersWaitForOnceTheLimitHasPassed) {
  Hold({LookAt({Waiting(4, 7), Behind(5, 6)})});
  EXPECT_FALSE(LookAfter(Duration(0)).has_value());
  EXPECT_FALSE(LookAfter(kCourtLimit - std::chrono::milliseconds(1)).has_value());
  EXPECT_EQ(taken_, 0);
  const std::optional<HangFinding> finding = LookAfter(std::chrono::milliseconds(1));
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->culprits, std::vector<int>{1});
  EXPECT_EQ(finding->sentence,
            "rank 5 has not called all_reduce #7 of group pg, in which 1 rank waits; rank 5 is in "
            "load (a.py:1)");
}

TEST_F(HangCourtTest, NeverSitsBeforeTheFirstStep) {
  Hold({LookAt({Waiting(4, 7), Behind(5, 6)})});
  LookAfter(Duration(0), 0, false);
  LookAfter(10 * kCourtLimit, 0, false);
  EXPECT_EQ(taken_, 0);
}

TEST_F(HangCourtTest, NeverSitsWhileStepsCome) {
  Hold({LookAt({Waiting(4, 7), Behind(5, 6)})});
  for (int64_t reports = 0; reports < 10; ++reports) {
    LookAfter(kCourtLimit - std::chrono::milliseconds(1), reports);
  }
  EXPECT_EQ(taken_, 0);
}

// A slow rank: the others wait for it at each look, in another collective each time.
TEST_F(HangCourtTest, NobodyIsJudgedWhoseCallsMove) {
  std::vector<HangLook> looks;
  for (int64_t number = 1; number <= 8; ++number) {
    looks.push_back(LookAt({Waiting(4, number + 1), Behind(5, number)}));
  }
  Hold(std::move(looks));
  LookAfter(Duration(0));
  for (int sitting = 1; sitting <= 4; ++sitting) {
    EXPECT_FALSE(LookAfter(std::chrono::minutes(1)).has_value());
    EXPECT_EQ(taken_, 2 * sitting);
    EXPECT_TRUE(court_->Reserves(now_)) << "the one that waits, idly perhaps, is not ended either";
  }
}

TEST_F(HangCourtTest, RanksThatWaitForAnotherPodAreLeftToTheOperatorForAWhile) {
  options_.has_peers_elsewhere = true;
  Hold({LookAt({Waiting(4, 7), Waiting(5, 7)})});
  LookAfter(Duration(0));
  EXPECT_FALSE(LookAfter(kCourtLimit).has_value());
  EXPECT_EQ(court_->evidence().size(), 2U);
  EXPECT_TRUE(court_->Reserves(now_));
  EXPECT_FALSE(court_->Reserves(now_ + std::chrono::minutes(1)));
  court_->Look(now_, 2, true, {});
  EXPECT_TRUE(court_->evidence().empty()) << "a step has come";
}

// A process of this test that answers as the Python package does.
class Answering {
 public:
  Answering(const std::string& name, const std::string& text) : text_(text) {
    const std::string full = name + "-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, full.data(), full.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_.get(), 2), 0);
    thread_ = std::jthread([this] {
      const UniqueFd connection(::accept(socket_.get(), nullptr, nullptr));
      for (std::size_t at = 0; at < text_.size();) {
        const ssize_t sent =
            ::send(connection.get(), text_.data() + at, text_.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) {
          return;
        }
        at += static_cast<std::size_t>(sent);
      }
    });
  }

 private:
  const std::string text_;
  UniqueFd socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::jthread thread_;
};

TEST(AskProcesses, TakesWhatAProcessAnswers) {
  const RankEvidence evidence = Behind(5, 6);
  const Answering process("lockstep-test-a", DumpJson(EncodeRankEvidence(evidence)));
  const HangLook look = AskProcesses("lockstep-test-a", {{}, {1, ::getpid()}});
  EXPECT_EQ(look.ranks, std::vector<RankEvidence>{evidence});
  EXPECT_EQ(look.local_ranks, (std::map<int, int>{{5, 1}}));
}

TEST(AskProcesses, LeavesOutWhatIsNoEvidence) {
  const std::string whole = DumpJson(EncodeRankEvidence(Behind(5, 6)));
  int number = 0;
  for (const std::string& text : {std::string(),
                                  whole.substr(0, whole.size() / 2),
                                  std::string("[1]"),
                                  std::string("\x80\x04\x95", 3),
                                  std::string(1 << 20, '['),
                                  DumpJson(EncodeRankEvidence({5, false, false, "f", {}}))}) {
    const std::string name = "lockstep-test-b" + std::to_string(number++);
    const Answering process(name, text);
    EXPECT_TRUE(AskProcesses(name, {{::getpid()}}).ranks.empty()) << text.substr(0, 80);
  }
}

TEST(AskProcesses, NobodyListens) {
  EXPECT_TRUE(AskProcesses("lockstep-test-c", {{::getpid(), 1}, {}}).ranks.empty());
}

}  // namespace
}  // namespace lockstep::runtime
