// Meshes of one process talking over real loopback sockets.

#include "trainer-runtime/rendezvous/mesh.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(20);  // far above what anything here takes

Deadline Soon() {
  return Deadline::After(SteadyNow(), kPatience);
}

// Collects the losses that a mesh reports.
class Losses {
 public:
  void Add(const PeerLoss& loss) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      losses_.push_back(loss);
    }
    changed_.notify_all();
  }

  // The index-th loss; fails the test when it does not come.
  PeerLoss Wait(std::size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool has_come =
        changed_.wait_for(lock, kPatience, [&] { return losses_.size() > index; });
    EXPECT_TRUE(has_come) << "no loss was reported";
    return has_come ? losses_[index] : PeerLoss{};
  }

  std::size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return losses_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PeerLoss> losses_;
};

// The ranks of one job on free ports of 127.0.0.1.
class Gang {
 public:
  explicit Gang(int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      Result<UniqueFd> listener = ListenOn("127.0.0.1", 0, 16);
      EXPECT_TRUE(listener.ok());
      const int port = BoundPort(*listener).value();
      ports_.push_back(port);
      addresses_.push_back("127.0.0.1:" + std::to_string(port));
      listeners_.push_back(std::move(listener).value());
    }
    meshes_.resize(ports_.size());
    losses_.resize(ports_.size());
  }

  MeshOptions Options(int rank, int64_t incarnation = 0) {
    const auto index = static_cast<std::size_t>(rank);
    MeshOptions options;
    options.identity = MeshIdentity{
        "uid", Attempt(0), rank, static_cast<int>(ports_.size()), Incarnation(incarnation)};
    options.addresses = addresses_;
    options.bind_address = "127.0.0.1";
    options.port = ports_[index];
    options.listener = std::move(listeners_[index]);
    options.job_key = "key";
    options.logger = logger_.get();
    losses_[index] = std::make_shared<Losses>();
    options.on_peer_lost = [losses = losses_[index]](const PeerLoss& loss) { losses->Add(loss); };
    return options;
  }

  void Start(MeshOptions options) {
    const auto index = static_cast<std::size_t>(options.identity.rank);
    Result<std::unique_ptr<Mesh>> mesh = Mesh::Start(std::move(options));
    ASSERT_TRUE(mesh.ok()) << mesh.error().ToString();
    meshes_[index] = std::move(mesh).value();
  }

  void StartAll() {
    for (int rank = 0; rank < static_cast<int>(ports_.size()); ++rank) {
      Start(Options(rank));
    }
  }

  void Kill(int rank) { meshes_[static_cast<std::size_t>(rank)].reset(); }

  Mesh& mesh(int rank) { return *meshes_[static_cast<std::size_t>(rank)]; }

  Losses& losses(int rank) { return *losses_[static_cast<std::size_t>(rank)]; }

  const std::vector<std::string>& addresses() const { return addresses_; }

  // Every rank calls Meet at the same time; the results by rank.
  std::vector<Result<Meeting>> MeetAll(const std::vector<SelfFacts>& facts,
                                       Epoch at_least = Epoch(0)) {
    std::vector<std::future<Result<Meeting>>> waiting;
    for (std::size_t rank = 0; rank < meshes_.size(); ++rank) {
      waiting.push_back(std::async(std::launch::async, [this, rank, &facts, at_least] {
        return meshes_[rank]->Meet(facts[rank], at_least, Soon(), {});
      }));
    }
    std::vector<Result<Meeting>> results;
    for (auto& one : waiting) {
      results.push_back(one.get());
    }
    return results;
  }

  std::vector<Result<Meeting>> MeetAll(Epoch at_least = Epoch(0)) {
    return MeetAll(std::vector<SelfFacts>(meshes_.size()), at_least);
  }

 private:
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<int> ports_;
  std::vector<std::string> addresses_;
  std::vector<UniqueFd> listeners_;
  std::vector<std::shared_ptr<Losses>> losses_;
  std::vector<std::unique_ptr<Mesh>> meshes_;  // last: their threads report losses
};

void ExpectMetAt(const std::vector<Result<Meeting>>& results, Epoch epoch) {
  for (const Result<Meeting>& result : results) {
    ASSERT_TRUE(result.ok()) << result.error().ToString();
    EXPECT_EQ(result->epoch, epoch);
  }
}

// Sends one byte from one end of a data link and reads it at the other.
char Exchange(const UniqueFd& from, const UniqueFd& to, char byte) {
  EXPECT_EQ(::write(from.get(), &byte, 1), 1);
  pollfd readable{to.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 5000), 1);
  char got = 0;
  EXPECT_EQ(::read(to.get(), &got, 1), 1);
  return got;
}

TEST(Mesh, LoneRankMeetsWithoutSockets) {
  const auto logger = MakeNullLogger();
  MeshOptions options;
  options.identity = MeshIdentity{"uid", Attempt(0), 0, 1, Incarnation(0)};
  options.initial_epoch = Epoch(3);
  options.logger = logger.get();
  auto mesh = Mesh::Start(std::move(options));
  ASSERT_TRUE(mesh.ok());
  const auto meeting = mesh.value()->Meet(SelfFacts{}, Epoch(0), Soon(), {});
  ASSERT_TRUE(meeting.ok());
  EXPECT_EQ(meeting->epoch, Epoch(3));
  EXPECT_EQ(meeting->members.size(), 1U);
}

TEST(Mesh, AllRanksMeetAndLearnEachOthersFacts) {
  Gang gang(3);
  gang.StartAll();
  std::vector<SelfFacts> facts(3);
  facts[1] = SelfFacts{true, Step(41), 0};
  const auto results = gang.MeetAll(facts);
  ExpectMetAt(results, Epoch(0));
  for (const Result<Meeting>& result : results) {
    ASSERT_EQ(result->members.size(), 3U);
    EXPECT_FALSE(result->members[0].has_state);
    EXPECT_TRUE(result->members[1].has_state);
    EXPECT_EQ(result->members[1].last_applied, Step(41));
    EXPECT_EQ(result->members[0].host_id, result->members[2].host_id);
  }
}

TEST(Mesh, DataLinksConnectEveryPair) {
  Gang gang(3);
  gang.StartAll();
  const auto results = gang.MeetAll();
  ExpectMetAt(results, Epoch(0));
  char byte = 'a';
  for (std::size_t from = 0; from < 3; ++from) {
    EXPECT_FALSE(results[from]->data_links[from].is_open());
    for (std::size_t to = 0; to < 3; ++to) {
      if (from != to) {
        ++byte;
        EXPECT_EQ(Exchange(results[from]->data_links[to], results[to]->data_links[from], byte),
                  byte);
      }
    }
  }
}

TEST(Mesh, RankThatComesLateIsWaitedFor) {
  Gang gang(2);
  gang.Start(gang.Options(0));
  auto first = std::async(std::launch::async,
                          [&gang] { return gang.mesh(0).Meet(SelfFacts{}, Epoch(0), Soon(), {}); });
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  gang.Start(gang.Options(1));
  EXPECT_TRUE(gang.mesh(1).Meet(SelfFacts{}, Epoch(0), Soon(), {}).ok());
  EXPECT_TRUE(first.get().ok());
}

TEST(Mesh, KilledRankIsReportedAndItsReplacementMeetsAtTheNextEpoch) {
  Gang gang(3);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  gang.Kill(1);
  for (const int survivor : {0, 2}) {
    const PeerLoss loss = gang.losses(survivor).Wait(0);
    EXPECT_EQ(loss.rank, 1);
    EXPECT_EQ(loss.epoch, Epoch(0));
    EXPECT_EQ(loss.reason, LossReason::kClosed);
  }
  gang.Start(gang.Options(1, 1));
  const auto results = gang.MeetAll();
  ExpectMetAt(results, Epoch(1));
  EXPECT_EQ(results[0]->members[1].incarnation, Incarnation(1));
  EXPECT_EQ(gang.losses(0).count(), 1U);
}

TEST(Mesh, LosingRankZeroIsAnOrdinaryLoss) {
  Gang gang(3);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  gang.Kill(0);
  EXPECT_EQ(gang.losses(1).Wait(0).rank, 0);
  EXPECT_EQ(gang.losses(2).Wait(0).rank, 0);
  gang.Start(gang.Options(0, 1));
  ExpectMetAt(gang.MeetAll(), Epoch(1));
}

TEST(Mesh, TwoLostAtOnceAreReplacedInOneMeeting) {
  Gang gang(4);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  gang.Kill(1);
  gang.Kill(2);
  (void)gang.losses(0).Wait(0);
  (void)gang.losses(3).Wait(0);
  gang.Start(gang.Options(2, 1));
  gang.Start(gang.Options(1, 1));
  const auto results = gang.MeetAll();
  ExpectMetAt(results, results[0]->epoch);
  EXPECT_GE(results[0]->epoch, Epoch(1));
}

TEST(Mesh, CallerThatAsksForANewMeetingMovesEverybody) {
  Gang gang(2);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  auto mover = std::async(std::launch::async,
                          [&gang] { return gang.mesh(1).Meet(SelfFacts{}, Epoch(1), Soon(), {}); });
  const PeerLoss loss = gang.losses(0).Wait(0);
  EXPECT_EQ(loss.rank, 1);
  EXPECT_EQ(loss.reason, LossReason::kMovedOn);
  const auto meeting = gang.mesh(0).Meet(SelfFacts{}, loss.epoch.Next(), Soon(), {});
  ASSERT_TRUE(meeting.ok());
  EXPECT_EQ(meeting->epoch, Epoch(1));
  EXPECT_EQ(mover.get()->epoch, Epoch(1));
}

TEST(Mesh, ReplacementWithTheOperatorsEpochPullsEverybodyThere) {
  Gang gang(2);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  gang.Kill(1);
  (void)gang.losses(0).Wait(0);
  MeshOptions options = gang.Options(1, 1);
  options.initial_epoch = Epoch(8);
  gang.Start(std::move(options));
  ExpectMetAt(gang.MeetAll(), Epoch(8));
  EXPECT_EQ(gang.mesh(0).epoch(), Epoch(8));
}

TEST(Mesh, OperatorsWordReportsTheLossAndRaisesTheEpoch) {
  Gang gang(2);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  gang.mesh(0).NoteGone(1, Incarnation(1), Epoch(5));
  const PeerLoss loss = gang.losses(0).Wait(0);
  EXPECT_EQ(loss.rank, 1);
  EXPECT_EQ(loss.reason, LossReason::kGone);
  // The process it was said to be gone is still there: it is told that it is a zombie.
  const auto zombie = gang.mesh(1).Meet(SelfFacts{}, Epoch(0), Soon(), {});
  ASSERT_FALSE(zombie.ok());
  EXPECT_EQ(zombie.error().code(), ErrorCode::kStale);
}

TEST(Mesh, ZombieIsRefusedByThoseWhoKnowItsReplacement) {
  Gang gang(2);
  gang.Start(gang.Options(0));
  gang.mesh(0).NoteGone(1, Incarnation(2), Epoch(2));
  gang.Start(gang.Options(1, 1));
  const auto zombie = gang.mesh(1).Meet(SelfFacts{}, Epoch(0), Soon(), {});
  ASSERT_FALSE(zombie.ok());
  EXPECT_EQ(zombie.error().code(), ErrorCode::kStale);
  EXPECT_THAT(zombie.error().ToString(), HasSubstr("rank 1 was superseded"));
}

TEST(Mesh, DeadlineListsTheMissingRanksWithTheirLastErrors) {
  Gang gang(3);
  gang.Start(gang.Options(0));
  gang.Start(gang.Options(1));
  (void)gang.Options(2).listener.is_open();  // taken and closed: nobody listens there
  const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::milliseconds(200));
  const auto result = gang.mesh(0).Meet(SelfFacts{}, Epoch(0), deadline, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kTimeout);
  const std::string text = result.error().ToString();
  EXPECT_THAT(text, HasSubstr("rank 1 at " + gang.addresses()[1] + " (connected, but has not"));
  EXPECT_THAT(text, HasSubstr("rank 2 at " + gang.addresses()[2]));
  EXPECT_THAT(text, HasSubstr("Connection refused"));
}

TEST(Mesh, StopRequestEndsTheWait) {
  Gang gang(2);
  gang.Start(gang.Options(0));
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] {
    return gang.mesh(0).Meet(SelfFacts{}, Epoch(0), Soon(), stop.get_token());
  });
  stop.request_stop();
  const auto result = waiting.get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kAborted);
}

TEST(Mesh, DifferentPlansAreNamedOnBothSides) {
  Gang gang(2);
  gang.StartAll();
  std::vector<SelfFacts> facts(2);
  facts[1].plan_hash = 7;
  for (const Result<Meeting>& result : gang.MeetAll(facts)) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), ErrorCode::kMismatch);
    EXPECT_THAT(result.error().message(), HasSubstr("rank 1 has a different plan than rank 0"));
  }
}

// Whoever is told ends, and must not leave the others waiting for it.
TEST(Mesh, DifferentPlansAreNamedToThoseWhomTheOthersLeave) {
  for (int round = 0; round < 40; ++round) {
    const int world_size = 2 + round % 4;
    Gang gang(world_size);
    gang.StartAll();
    std::vector<std::future<Result<Meeting>>> waiting;
    for (int rank = 0; rank < world_size; ++rank) {
      waiting.push_back(std::async(std::launch::async, [&gang, rank] {
        SelfFacts facts;
        facts.plan_hash = rank == 1 ? 7 : 0;
        Result<Meeting> result = gang.mesh(rank).Meet(facts, Epoch(0), Soon(), {});
        gang.Kill(rank);
        return result;
      }));
    }
    for (auto& one : waiting) {
      const Result<Meeting> result = one.get();
      ASSERT_FALSE(result.ok());
      ASSERT_EQ(result.error().code(), ErrorCode::kMismatch) << result.error().ToString();
    }
  }
}

TEST(Mesh, ProcessesWithoutTheJobsKeyNeverMeet) {
  Gang gang(2);
  gang.Start(gang.Options(0));
  MeshOptions stranger = gang.Options(1);
  stranger.job_key = "guess";
  gang.Start(std::move(stranger));
  const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::milliseconds(200));
  const auto result = gang.mesh(0).Meet(SelfFacts{}, Epoch(0), deadline, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kTimeout);
}

TEST(Mesh, TakenPortIsNamed) {
  const auto logger = MakeNullLogger();
  const Result<UniqueFd> taken = ListenOn("127.0.0.1", 0, 1);
  ASSERT_TRUE(taken.ok());
  MeshOptions options;
  options.identity = MeshIdentity{"uid", Attempt(0), 0, 2, Incarnation(0)};
  options.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  options.bind_address = "127.0.0.1";
  options.port = BoundPort(*taken).value();
  options.logger = logger.get();
  const auto mesh = Mesh::Start(std::move(options));
  ASSERT_FALSE(mesh.ok());
  EXPECT_EQ(mesh.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(mesh.error().message(),
              HasSubstr("127.0.0.1:" + std::to_string(BoundPort(*taken).value())));
}

TEST(Mesh, AddressesThatDoNotFitAreRefused) {
  const auto logger = MakeNullLogger();
  MeshOptions options;
  options.identity = MeshIdentity{"uid", Attempt(0), 0, 2, Incarnation(0)};
  options.addresses = {"127.0.0.1:1"};
  options.logger = logger.get();
  EXPECT_EQ(Mesh::Start(std::move(options)).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Mesh, NamesAreResolved) {
  Gang gang(2);
  for (const int rank : {0, 1}) {
    MeshOptions options = gang.Options(rank);
    for (std::string& address : options.addresses) {
      address.replace(0, std::string("127.0.0.1").size(), "localhost");
    }
    gang.Start(std::move(options));
  }
  ExpectMetAt(gang.MeetAll(), Epoch(0));
}

TEST(Mesh, PeersShowWhoIsThere) {
  Gang gang(3);
  gang.StartAll();
  ExpectMetAt(gang.MeetAll(), Epoch(0));
  EXPECT_EQ(gang.mesh(0).Peers().at(0).state, PeerState::kConnected);
  gang.Kill(2);
  (void)gang.losses(0).Wait(0);
  // Published by the same thread right after the report.
  const auto deadline = Soon();
  while (gang.mesh(0).Peers().at(1).state == PeerState::kConnected &&
         !deadline.HasPassed(SteadyNow())) {
    std::this_thread::yield();
  }
  EXPECT_EQ(gang.mesh(0).Peers().at(1).state, PeerState::kLost);
  EXPECT_EQ(gang.mesh(0).Peers().at(1).reason, "closed");
}

}  // namespace
}  // namespace lockstep::runtime
