// Sessions of one process that meet over real loopback sockets.

#include "trainer-runtime/session/session.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "trainer-runtime/rendezvous/socket_address.h"
#include "trainer-runtime/session/recovery_loop.h"

namespace lockstep::runtime {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);  // far above what anything here takes
constexpr Duration kHeard = std::chrono::seconds(1);      // what a loss or a stop may take

constexpr std::size_t kRanks = 3;

// A gang of sessions on this machine; each rank can be replaced.
class SessionGang : public ::testing::Test {
 protected:
  SessionGang() : stops_(kRanks), sessions_(kRanks) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      UniqueFd listener = ListenOn("127.0.0.1", 0, 16).value();
      addresses_.push_back("127.0.0.1:" + std::to_string(BoundPort(listener).value()));
      listeners_.push_back(std::move(listener));
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      StartRank(rank, Incarnation(0), std::move(listeners_[rank]));
    }
  }

  void StartRank(std::size_t rank, Incarnation incarnation, UniqueFd listener) {
    SessionOptions options;
    options.mesh.identity = {
        "job", Attempt(0), static_cast<int>(rank), static_cast<int>(kRanks), incarnation};
    options.mesh.addresses = addresses_;
    options.mesh.listener = std::move(listener);
    options.mesh.job_key = "key";
    options.mesh.logger = logger_.get();
    options.meeting_timeout = kPatience;
    options.stop = stops_[rank].get_token();
    auto session = Session::Start(std::move(options));
    ASSERT_TRUE(session.ok()) << session.error().ToString();
    sessions_[rank] = std::move(session).value();
  }

  // The process of `rank` ends, and another takes its place and its port.
  void Replace(std::size_t rank, Incarnation incarnation) {
    sessions_[rank].reset();
    const auto colon = addresses_[rank].find(':');
    StartRank(rank,
              incarnation,
              ListenOn("127.0.0.1", std::stoi(addresses_[rank].substr(colon + 1)), 16).value());
  }

  // `holder`: the rank that brings a state; none does.
  std::vector<Meeting> MeetAll(std::optional<std::size_t> holder = std::nullopt) {
    std::vector<std::future<Result<Meeting>>> calls;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const bool has_state = rank == holder;
      calls.push_back(std::async(std::launch::async, [this, rank, has_state] {
        return sessions_[rank]->Meet(has_state, Step(has_state ? 5 : 0));
      }));
    }
    std::vector<Meeting> meetings;
    for (auto& call : calls) {
      meetings.push_back(call.get().value());
    }
    return meetings;
  }

  void JoinAll(std::vector<Meeting> meetings) {
    std::vector<std::future<bool>> calls;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      calls.push_back(std::async(std::launch::async, [&, rank] {
        return sessions_[rank]->Join(std::move(meetings[rank])).ok();
      }));
    }
    for (auto& call : calls) {
      EXPECT_TRUE(call.get());
    }
  }

  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<std::string> addresses_;
  std::vector<UniqueFd> listeners_;
  std::vector<std::stop_source> stops_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

Status AddOnes(Communicator* communicator, int64_t* sum) {
  *sum = 1;
  return communicator->AllReduce(
      sum, 1, DataType::kInt64, ReduceOp::kSum, Deadline::After(SteadyNow(), kPatience));
}

TEST_F(SessionGang, RanksThatMetAndJoinedReduceTogether) {
  std::vector<Meeting> meetings = MeetAll();
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto joined = sessions_[rank]->Join(std::move(meetings[rank]));
      ASSERT_TRUE(joined.ok()) << joined.error().ToString();
      EXPECT_EQ(joined->state_source, std::nullopt);
      int64_t sum = 0;
      EXPECT_TRUE(AddOnes(joined->communicator, &sum).ok());
      EXPECT_EQ(sum, 3);
    });
  }
}

// Rank 1 ends in its third step. The others meet again with its replacement, which has no state:
// the one that is ahead gives it, and all go on to the tenth.
TEST_F(SessionGang, SurvivorsMeetTheReplacementAndGoOn) {
  constexpr int64_t kStepsTotal = 10;
  std::vector<int64_t> steps(kRanks, 0);
  std::vector<std::optional<int>> last_source(kRanks);
  const auto run = [&](std::size_t rank, int64_t dies_at) {
    int64_t& step = steps[rank];
    MeetingSteps duties;
    duties.held = [&] { return HeldState{step > 0, Step(step)}; };
    duties.on_waiting = [] {};
    duties.prepare = [](const Meeting&) { return OkStatus(); };
    duties.on_broken = [](Epoch, const Error&) {};
    duties.work = [&, rank, dies_at](const JoinedMeeting& meeting) -> Status {
      last_source[rank] = meeting.state_source;
      const int source = meeting.state_source.value_or(0);
      const Deadline deadline = Deadline::After(SteadyNow(), kPatience);
      LOCKSTEP_RETURN_IF_ERROR(
          meeting.communicator->Broadcast(&step, sizeof(step), source, deadline));
      while (step < kStepsTotal) {
        if (step == dies_at) {
          return Error(ErrorCode::kInternal, "dies");
        }
        int64_t sum = 0;
        LOCKSTEP_RETURN_IF_ERROR(AddOnes(meeting.communicator, &sum));
        ++step;
      }
      return OkStatus();
    };
    return RepeatMeetings(sessions_[rank].get(), duties);
  };
  auto survivor_a = std::async(std::launch::async, run, 0, -1);
  auto survivor_b = std::async(std::launch::async, run, 2, -1);
  EXPECT_EQ(run(1, 3).error().code(), ErrorCode::kInternal);
  steps[1] = 0;
  Replace(1, Incarnation(1));
  EXPECT_TRUE(run(1, -1).ok());
  EXPECT_TRUE(survivor_a.get().ok());
  EXPECT_TRUE(survivor_b.get().ok());
  EXPECT_EQ(steps, (std::vector<int64_t>{10, 10, 10}));
  EXPECT_NE(last_source[1], std::nullopt);
  EXPECT_NE(last_source[1], std::optional(1));
}

// The last barrier: rank 2 dies in it after it has come through for rank 0 and before it has for
// rank 1. Rank 0 leaves, and rank 1 must not wait for a meeting that nobody else comes to.
TEST_F(SessionGang, ARankThatMissedTheEndIsToldOfIt) {
  const auto run = [&](std::size_t rank, const std::function<Status()>& last_barrier) {
    MeetingSteps duties;
    duties.held = [] { return HeldState{}; };
    duties.on_waiting = [] {};
    duties.prepare = [](const Meeting&) { return OkStatus(); };
    duties.on_broken = [](Epoch, const Error&) {};
    duties.work = [&](const JoinedMeeting&) { return last_barrier(); };
    return RepeatMeetings(sessions_[rank].get(), duties);
  };
  std::promise<void> is_dead;
  auto unlucky = std::async(std::launch::async, run, 1, [&]() -> Status {
    is_dead.get_future().wait();
    return Error(ErrorCode::kPeerLost, "rank 2 is gone");
  });
  auto lucky = std::async(std::launch::async, run, 0, [&] {
    sessions_[0]->Finish();
    return OkStatus();
  });
  EXPECT_FALSE(run(2, [] { return Error(ErrorCode::kInternal, "dies"); }).ok());
  sessions_[2].reset();
  is_dead.set_value();
  EXPECT_TRUE(lucky.get().ok());
  sessions_[0].reset();
  const Status ended = unlucky.get();
  EXPECT_TRUE(ended.ok()) << ended.error().ToString();
}

// The peer met, and is gone before it joins; its data connections stay open, as those of a node
// that loses its power do. Only the mesh knows.
TEST_F(SessionGang, JoiningHearsOfALoss) {
  std::vector<Meeting> meetings = MeetAll();
  auto joining =
      std::async(std::launch::async, [&] { return sessions_[0]->Join(std::move(meetings[0])); });
  sessions_[1].reset();
  ASSERT_EQ(joining.wait_for(kHeard), std::future_status::ready);
  const auto joined = joining.get();
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code(), ErrorCode::kPeerLost);
  EXPECT_EQ(joined.error().message(), "rank 1 is lost: closed");
  EXPECT_TRUE(sessions_[0]->MayMeetAgain(joined.error()));
}

// The loss is known before the rank comes to join: it was still loading.
TEST_F(SessionGang, JoiningKnowsOfAnEarlierLoss) {
  std::vector<Meeting> meetings = MeetAll();
  sessions_[1].reset();
  const TimePoint patience_ends = SteadyNow() + kPatience;
  while (sessions_[0]->mesh().Peers()[0].state == PeerState::kConnected &&
         SteadyNow() < patience_ends) {
    std::this_thread::yield();
  }
  auto joining =
      std::async(std::launch::async, [&] { return sessions_[0]->Join(std::move(meetings[0])); });
  ASSERT_EQ(joining.wait_for(kHeard), std::future_status::ready);
  EXPECT_EQ(joining.get().error().code(), ErrorCode::kPeerLost);
}

// A chief that dies while all leave: its end is seen before the mesh tells of it.
TEST_F(SessionGang, WhoeverIsLeftIsFirstOnceTheLossIsTold) {
  JoinAll(MeetAll());
  for (auto& session : sessions_) {
    session->NoteAllHold();
  }
  EXPECT_TRUE(sessions_[0]->AwaitFirstOfHolders());
  auto second = std::async(std::launch::async, [&] { return sessions_[1]->AwaitFirstOfHolders(); });
  second.wait_for(std::chrono::milliseconds(20));  // it asks while the chief is there
  sessions_[0].reset();
  EXPECT_TRUE(second.get());
  EXPECT_FALSE(sessions_[2]->AwaitFirstOfHolders());  // rank 1 does not leave
}

// Broken before a state has come over: what rank 1 brought nobody else has.
TEST_F(SessionGang, OnlyTheSourceHoldsAStateBeforeTheFirstStep) {
  JoinAll(MeetAll(1));
  EXPECT_TRUE(sessions_[1]->AwaitFirstOfHolders());
  EXPECT_FALSE(sessions_[2]->AwaitFirstOfHolders());
}

// Nobody brings one: all take what rank 0 reads or makes.
TEST_F(SessionGang, RankZeroHoldsTheFirstState) {
  JoinAll(MeetAll());
  EXPECT_TRUE(sessions_[0]->AwaitFirstOfHolders());
  EXPECT_FALSE(sessions_[1]->AwaitFirstOfHolders());
}

// A peer is slow to load; a stop does not wait for it.
TEST_F(SessionGang, JoiningHearsAStop) {
  std::vector<Meeting> meetings = MeetAll();
  auto joining =
      std::async(std::launch::async, [&] { return sessions_[0]->Join(std::move(meetings[0])); });
  stops_[0].request_stop();
  ASSERT_EQ(joining.wait_for(kHeard), std::future_status::ready);
  const auto joined = joining.get();
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code(), ErrorCode::kAborted);
  EXPECT_FALSE(sessions_[0]->MayMeetAgain(joined.error()));
}

}  // namespace
}  // namespace lockstep::runtime
