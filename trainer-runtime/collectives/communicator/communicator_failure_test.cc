#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <future>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "common/contract/status/lost_peer.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/collectives/testing_world.h"

// What happens when ranks disagree, stop, die or are told to stop.

namespace lockstep::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CommunicatorFailureTest : public testing::TestWithParam<Backend> {};

INSTANTIATE_TEST_SUITE_P(Backends,
                         CommunicatorFailureTest,
                         testing::Values(Backend::kSharedMemory,
                                         Backend::kTcp,
                                         Backend::kHierarchical),
                         [](const auto& test) { return BackendText(test.param); });

// Later than this program's own limit of ten minutes: who only wakes at the deadline never does, so
// an error shows that its cause was noticed, without a look at the clock.
Deadline OutOfReach() {
  return Deadline::After(SteadyNow(), std::chrono::minutes(15));
}

Status Sum(Communicator& communicator, std::size_t count, Deadline deadline = OutOfReach()) {
  std::vector<float> data(count, 1.0F);
  return communicator.AllReduce(data.data(), count, DataType::kFloat32, ReduceOp::kSum, deadline);
}

// --- Divergence ---

struct Divergence {
  const char* name;
  std::function<Status(Communicator&)> odd;   // what rank `odd_rank` calls
  std::function<Status(Communicator&)> rest;  // what the others call
  const char* odd_text;
  const char* rest_text;
};

constexpr const char* kOfData = "ranks disagree on the type or shape of the data: rank ";

std::vector<Divergence> Divergences() {
  const auto reduce = [](DataType type, ReduceOp op) {
    return [type, op](Communicator& communicator) {
      std::vector<uint64_t> data(100);
      return communicator.AllReduce(data.data(), 100, type, op, OutOfReach());
    };
  };
  const auto broadcast = [](int root) {
    return [root](Communicator& communicator) {
      std::vector<uint64_t> data(100);
      return communicator.Broadcast(data.data(), 800, root, OutOfReach());
    };
  };
  const auto on_terms = [](uint32_t terms, std::function<Status(Communicator&)> call) {
    return [terms, call](Communicator& communicator) {
      communicator.NoteTerms(terms);
      return call(communicator);
    };
  };
  const auto sum = [](std::size_t count) {
    return [count](Communicator& communicator) { return Sum(communicator, count); };
  };
  const auto barrier = [](Communicator& communicator) {
    return communicator.Barrier(OutOfReach());
  };
  const auto float_sum = reduce(DataType::kFloat32, ReduceOp::kSum);
  return {
      {"small count", sum(10), sum(11), "of 10 x float32", "of 11 x float32"},
      {"large count", sum(1'000'000), sum(999'999), "(4000000 bytes)", "(3999996 bytes)"},
      {"small against large", sum(1), sum(2'000'000), "of 1 x", "of 2000000 x"},
      {"large against small", sum(2'000'000), sum(1), "of 2000000 x", "of 1 x"},
      {"type", reduce(DataType::kInt32, ReduceOp::kSum), float_sum, "100 x int32", "100 x float32"},
      {"operation", reduce(DataType::kFloat32, ReduceOp::kMax), float_sum, "max of", "sum of"},
      {"barrier against sum", barrier, sum(1000), "barrier", "all_reduce"},
      {"broadcast against sum", broadcast(0), sum(1000), "broadcast of 800", "all_reduce"},
      {"terms of a sum", on_terms(7, sum(10)), on_terms(9, sum(10)), kOfData, "of 10 x"},
      {"terms of a broadcast", on_terms(7, broadcast(0)), broadcast(0), kOfData, "of 800"},
      {"root", broadcast(1), broadcast(0), "from rank 1", "from rank 0"},
      // Skips a call that the others make: seen at the next one.
      {"sequence", sum(20), [&](Communicator& c) { return Sum(c, 10); }, "of 20 x", "of 10 x"},
  };
}

// How soon is measured by tests/bench/allreduce/divergence_main.cc.
TEST_P(CommunicatorFailureTest, DivergenceIsAMismatchNamingBothRanksAndCallsOnEveryRank) {
  for (const Divergence& divergence : Divergences()) {
    for (int odd_rank = 0; odd_rank < 3; ++odd_rank) {
      RunThreads(3, GetParam(), [&](Communicator& communicator) {
        ASSERT_TRUE(communicator.Barrier(Soon()).ok());
        const bool is_odd = communicator.rank() == odd_rank;
        const Status status = is_odd ? divergence.odd(communicator) : divergence.rest(communicator);
        ASSERT_FALSE(status.ok()) << divergence.name;
        EXPECT_EQ(status.error().code(), ErrorCode::kMismatch) << status.error().ToString();
        EXPECT_THAT(status.error().ToString(),
                    AllOf(HasSubstr("rank " + std::to_string(odd_rank) + " called"),
                          HasSubstr(divergence.odd_text),
                          HasSubstr(divergence.rest_text)))
            << divergence.name;
        // All later calls fail at once, with the same error.
        const Status later = communicator.Barrier(Soon());
        ASSERT_FALSE(later.ok());
        EXPECT_EQ(later.error().ToString(), status.error().ToString());
      });
    }
  }
}

TEST_P(CommunicatorFailureTest, DivergenceOfTwoIsSeenWhileTheThirdIsStillAway) {
  std::atomic<int> failed = 0;
  RunThreads(3, GetParam(), [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      // Comes only after the others have failed; they would wait for it first.
      while (failed.load() < 2) {
        std::this_thread::yield();
      }
    }
    const std::size_t count = communicator.rank() == 2 ? 5 : 6;
    const Status status = Sum(communicator, count);
    ++failed;
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::kMismatch) << status.error().ToString();
  });
}

// --- Deadline and abort ---

// How long the present ranks wait for the absent one. Long enough that on a crowded machine they
// have all called by then, and only the absent one is named.
constexpr Duration kPatience = std::chrono::milliseconds(700);

TEST_P(CommunicatorFailureTest, AbsentRankIsATimeoutAtTheDeadlineNamingItAndTheCall) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{3'000'000}}) {
    std::atomic<int> done = 0;
    RunThreads(3, GetParam(), [&](Communicator& communicator) {
      if (communicator.rank() == 1) {
        while (done.load() < 2) {
          std::this_thread::yield();
        }
        return;
      }
      const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
      const Status status = Sum(communicator, count, deadline);
      ++done;
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code(), ErrorCode::kTimeout);
      EXPECT_THAT(status.error().ToString(),
                  AllOf(HasSubstr("waiting for rank 1"),
                        HasSubstr(std::to_string(4 * count) + " bytes"),
                        HasSubstr("epoch 3, call 1"),
                        HasSubstr("after 0.")));
    });
  }
}

// Not hierarchical: there a rank hears of other hosts through its own host's first rank, when that
// calls.
class OneLevelFailureTest : public testing::TestWithParam<Backend> {};

INSTANTIATE_TEST_SUITE_P(Backends,
                         OneLevelFailureTest,
                         testing::Values(Backend::kSharedMemory, Backend::kTcp),
                         [](const auto& test) { return BackendText(test.param); });

TEST_P(OneLevelFailureTest, AbortFromAnotherThreadEndsTheWaitAndReachesTheOtherRanks) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{3'000'000}}) {
    std::atomic<int> waiting = 0;
    std::atomic<int> ended = 0;
    RunThreads(3, GetParam(), [&](Communicator& communicator) {
      if (communicator.rank() == 1) {  // never calls
        while (ended.load() < 2) {
          std::this_thread::yield();
        }
        return;
      }
      std::jthread aborter;
      if (communicator.rank() == 0) {
        aborter = std::jthread([&] {
          while (waiting.load() < 2) {
            std::this_thread::yield();
          }
          communicator.Abort(Error(ErrorCode::kAborted, "rank 1 is being replaced"));
        });
      }
      ++waiting;
      const Status status = Sum(communicator, count);
      ++ended;
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code(), ErrorCode::kAborted) << status.error().ToString();
      EXPECT_THAT(status.error().ToString(), HasSubstr("rank 1 is being replaced"));
      EXPECT_FALSE(communicator.Barrier(Soon()).ok());
    });
  }
}

TEST_P(CommunicatorFailureTest, AbortBetweenCallsReachesARankThatWaits) {
  RunThreads(3, GetParam(), [](Communicator& communicator) {
    ASSERT_TRUE(communicator.Barrier(Soon()).ok());
    if (communicator.rank() == 0) {
      communicator.Abort(Error(ErrorCode::kAborted, "enough"));
      communicator.Abort(Error(ErrorCode::kInternal, "the second is not kept"));
    }
    const Status status = Sum(communicator, 1000);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::kAborted) << status.error().ToString();
    EXPECT_THAT(status.error().ToString(), HasSubstr("enough"));
  });
}

TEST_P(CommunicatorFailureTest, LeavingAfterTheLastCallDisturbsNobody) {
  for (int round = 0; round < 20; ++round) {
    RunThreads(3, GetParam(), [](Communicator& communicator) {
      const Status small = Sum(communicator, 10);
      ASSERT_TRUE(small.ok()) << small.error().ToString();
      const Status large = Sum(communicator, 300'000);
      ASSERT_TRUE(large.ok()) << large.error().ToString();
    });
  }
}

TEST_P(CommunicatorFailureTest, RootOutsideTheWorldIsInvalid) {
  RunThreads(3, GetParam(), [](Communicator& communicator) {
    const Status status = communicator.Broadcast(nullptr, 0, 3, Soon());
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
  });
}

// --- Real processes ---

constexpr int kExitOk = 0;
constexpr int kExitUnexpected = 50;
// An error exits with this plus the number of its code, if its text says `named`.
constexpr int kExitOfCode = 10;

int ExitOf(const Status& status, const std::string& named) {
  if (status.ok()) {
    return kExitOk;
  }
  const std::string text = status.error().ToString();
  if (text.find(named) == std::string::npos) {
    std::fprintf(stderr, "expected \"%s\" in: %s\n", named.c_str(), text.c_str());
    return kExitUnexpected;
  }
  return kExitOfCode + static_cast<int>(status.error().code());
}

// The same where a reader of the text finds `lost` in it.
int ExitOfLoss(const Error& error, int lost) {
  const std::string text = error.ToString();
  const std::vector<int> said = ParseLostPeers(text);
  if (std::find(said.begin(), said.end(), lost) == said.end()) {
    std::fprintf(stderr, "expected the loss of rank %d in: %s\n", lost, text.c_str());
    return kExitUnexpected;
  }
  return kExitOfCode + static_cast<int>(error.code());
}

constexpr int ExitOf(ErrorCode code) {
  return kExitOfCode + static_cast<int>(code);
}

// A pipe through which children say that they are under way.
struct ProgressPipe {
  ProgressPipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }

  void Tell() const { EXPECT_EQ(::write(write_end.get(), "x", 1), 1); }

  // For the parent, once the children have the pipe. A child that dies early ends the wait.
  void AwaitTells(int count) {
    write_end.Reset();
    for (char byte = 0; count > 0; --count) {
      ASSERT_EQ(::read(read_end.get(), &byte, 1), 1);
    }
  }

  UniqueFd read_end;
  UniqueFd write_end;
};

// Reduces over and over until `lost` is; tells once after a few rounds.
int ReduceForever(Communicator& communicator,
                  std::size_t count,
                  const ProgressPipe& progress,
                  int lost) {
  for (int round = 0;; ++round) {
    const Status status = Sum(communicator, count);
    if (!status.ok()) {
      return ExitOfLoss(status.error(), lost);
    }
    if (round == 3) {
      progress.Tell();
    }
  }
}

TEST_P(CommunicatorFailureTest, ProcessesGetTheSameSum) {
  ProcessWorld world(3, GetParam(), [](Communicator& communicator) {
    std::vector<float> data(500'000, static_cast<float>(communicator.rank() + 1));
    const Status status = communicator.AllReduce(
        data.data(), data.size(), DataType::kFloat32, ReduceOp::kSum, Soon());
    const bool is_right = data == std::vector<float>(data.size(), 6.0F);
    return status.ok() && is_right ? kExitOk : kExitUnexpected;
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(world.Wait(rank), kExitOk);
  }
}

TEST_P(CommunicatorFailureTest, KilledRankIsNoticedByEveryOtherAndNamed) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{1'000'000}}) {
    for (int killed = 0; killed < 3; ++killed) {
      ProgressPipe progress;
      ProcessWorld world(3, GetParam(), [&](Communicator& communicator) {
        return ReduceForever(communicator, count, progress, killed);
      });
      progress.AwaitTells(3);
      world.Signal(killed, SIGKILL);
      EXPECT_EQ(world.Wait(killed), -SIGKILL);
      for (int rank = 0; rank < 3; ++rank) {
        if (rank != killed) {
          EXPECT_EQ(world.Wait(rank), ExitOf(ErrorCode::kPeerLost))
              << "rank " << rank << ", killed " << killed << ", count " << count;
        }
      }
    }
  }
}

TEST_P(CommunicatorFailureTest, StoppedRankIsATimeoutThatNamesIt) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{1'000'000}}) {
    ProcessWorld world(3, GetParam(), [&](Communicator& communicator) {
      const Status before = Sum(communicator, count);
      if (communicator.rank() == 1) {
        ::raise(SIGSTOP);
      }
      const Status after = Sum(communicator, count, Deadline::After(SteadyNow(), kPatience));
      return before.ok() ? ExitOf(after, "waiting for rank 1,") : kExitUnexpected;
    });
    EXPECT_EQ(world.Wait(0), ExitOf(ErrorCode::kTimeout));
    EXPECT_EQ(world.Wait(2), ExitOf(ErrorCode::kTimeout));
  }
}

// Passes on what rank 1 says to rank 0, from Slow() on byte by byte without a pause, and back.
class SlowRelay {
 public:
  SlowRelay(UniqueFd to_zero, UniqueFd to_one)
      : thread_([this, zero = std::move(to_zero), one = std::move(to_one)](
                    const std::stop_token& stop) mutable {
          constexpr int kBytesBetweenAnswers = 256;
          while (!stop.stop_requested()) {
            const bool is_slow = is_slow_.load();
            for (int byte = 0; byte < (is_slow ? kBytesBetweenAnswers : 1); ++byte) {
              Pass(one.get(), zero.get(), is_slow ? 1 : kBytesMax);
            }
            Pass(zero.get(), one.get(), kBytesMax);
          }
        }) {}

  void Slow() { is_slow_.store(true); }

 private:
  static constexpr std::size_t kBytesMax = 64 * 1024;

  static void Pass(int from, int to, std::size_t most) {
    std::array<char, kBytesMax> bytes;
    const ssize_t got = ::recv(from, bytes.data(), most, MSG_DONTWAIT);
    if (got > 0) {
      static_cast<void>(::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL));
    } else if (got == 0) {
      ::shutdown(to, SHUT_WR);
    }
  }

  std::atomic<bool> is_slow_{false};
  std::jthread thread_;  // last: uses the flag
};

// Bytes that never pause for long leave no quiet moment in which to look at the clock.
TEST(TcpCommunicator, TheDeadlineHoldsWhileBytesTrickleIn) {
  LinkMatrix near = MakeLinks(2);
  LinkMatrix far = MakeLinks(2);
  SlowRelay relay(std::move(near[1][0]), std::move(far[0][1]));
  near[1][0] = std::move(far[1][0]);  // rank 1's end of the other connection
  const auto call = [&](int rank, Duration timeout) {
    auto communicator = MakeCommunicator(OptionsOf(rank, Backend::kTcp, near), Soon());
    EXPECT_TRUE(communicator.ok());
    EXPECT_TRUE((*communicator)->Barrier(Soon()).ok());
    relay.Slow();
    return Sum(**communicator, 2'000'000, Deadline::After(SteadyNow(), timeout));
  };
  auto patient = std::async(std::launch::async, call, 1, std::chrono::minutes(15));
  const Status hurried = call(0, std::chrono::milliseconds(300));
  ASSERT_FALSE(hurried.ok());
  EXPECT_EQ(hurried.error().code(), ErrorCode::kTimeout) << hurried.error().ToString();
  EXPECT_THAT(hurried.error().ToString(), HasSubstr("deadline passed"));
  EXPECT_FALSE(patient.get().ok());
}

// --- The segment's door ---

TEST(SharedSegment, WrongTokenGetsNothing) {
  auto segment = SharedSegment::Create(8192);
  ASSERT_TRUE(segment.ok()) << segment.error().ToString();
  auto server = SegmentServer::Open(*segment);
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  const LinkMatrix quiet = MakeLinks(2);
  SegmentOffer forged = server->offer();
  forged.token.assign(forged.token.size(), '0');
  const std::jthread door([&] {
    for (int visitor = 0; visitor < 2; ++visitor) {
      pollfd entry{server->fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
      server->ServeOne(*segment);
    }
  });
  const auto refused = FetchSegment(forged, quiet[0][1], Soon());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  const auto granted = FetchSegment(server->offer(), quiet[0][1], Soon());
  ASSERT_TRUE(granted.ok()) << granted.error().ToString();
  segment->data()[5] = std::byte{77};
  EXPECT_EQ(granted->data()[5], std::byte{77});
}

// Rank 0 died, or gave up, between its offer and the answer at its door.
TEST(SharedSegment, ALinkThatEndsEndsTheWaitAtTheDoor) {
  auto segment = SharedSegment::Create(8192);
  ASSERT_TRUE(segment.ok()) << segment.error().ToString();
  auto server = SegmentServer::Open(*segment);
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  LinkMatrix links = MakeLinks(2);
  links[1][0].Reset();
  const auto fetched = FetchSegment(server->offer(), links[0][1], OutOfReach());
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().code(), ErrorCode::kPeerLost);
}

TEST(SharedSegment, MemoryThatCouldShrinkIsRefused) {
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  const auto mapped = SharedSegment::Map(std::move(unsealed), 8192);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.error().code(), ErrorCode::kCorrupt);
}

TEST(SharedSegment, NobodyAtTheDoorIsAnErrorAtOnce) {
  const LinkMatrix quiet = MakeLinks(2);
  const auto fetched =
      FetchSegment({"lockstep-nobody-is-here", std::string(32, '0'), 8192}, quiet[0][1], Soon());
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::runtime
