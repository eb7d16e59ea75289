// Whom a ps answers: callers that speak for others, of another life of the job, or of no rank.

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/ps/ps_caller.h"
#include "trainer-runtime/ps/shard_frames.h"
#include "trainer-runtime/ps/testing/ps_gang.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kWorkerCount = 2;
constexpr Incarnation kBorn(3);

testing::PsGangOptions TwoWorkers() {
  testing::PsGangOptions options;
  options.worker_count = kWorkerCount;
  options.max_staleness = 1000;
  options.element_counts = {6};
  options.rule = [](int64_t, std::span<const float>, std::vector<float>*, std::vector<float>*) {};
  return options;
}

MeshIdentity WorkerIdentity() {
  return {"uid", Attempt(), 0, kWorkerCount, kBorn};
}

// A caller by hand, of ps 0.
class Caller {
 public:
  Caller(const testing::PsGang& gang, MeshIdentity identity, std::string key = "key")
      : caller_({std::move(identity), ParsedAddresses(gang), std::move(key)}) {
    EXPECT_TRUE(caller_.Open().ok());
    caller_.Want(0, SteadyNow());
  }

  void Send(const std::string& message) { caller_.Send(0, message); }

  PsCaller* calls() { return &caller_; }

  // The next that happens; nullopt where nothing does for 10 s.
  std::optional<CallerNews> Next() {
    const Deadline deadline = Deadline::After(SteadyNow(), seconds(10));
    while (news_.empty() && !deadline.HasPassed(SteadyNow())) {
      PollSet poll;
      caller_.Watch(&poll);
      poll.Wait(SteadyNow(), std::min(deadline.when(), caller_.NextTimeout()));
      news_ = caller_.Advance(poll, SteadyNow());
    }
    if (news_.empty()) {
      return std::nullopt;
    }
    CallerNews first = std::move(news_.front());
    news_.erase(news_.begin());
    return first;
  }

 private:
  static std::vector<HostPort> ParsedAddresses(const testing::PsGang& gang) {
    std::vector<HostPort> addresses;
    for (const std::string& text : gang.addresses()) {
      addresses.push_back(ParseHostPort(text).value());
    }
    return addresses;
  }

  PsCaller caller_;
  std::vector<CallerNews> news_;
};

CallerNews::Kind NextKind(Caller* caller) {
  const std::optional<CallerNews> news = caller->Next();
  EXPECT_TRUE(news.has_value()) << "nothing happened";
  return news.has_value() ? news->kind : CallerNews::Kind::kMessage;
}

std::string Pull(WorkerProcess process, int shard = 0) {
  WorkerRequest request;
  request.process = process;
  request.number = 1;
  request.body = request::Pull{};
  return EncodeShardFrame({shard, request});
}

TEST(PsManners, WorkerIsAnsweredInItsOwnName) {
  testing::PsGang gang(TwoWorkers());
  Caller caller(gang, WorkerIdentity());
  ASSERT_EQ(NextKind(&caller), CallerNews::Kind::kUp);

  caller.Send(Pull({0, kBorn}));

  EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kMessage);
}

// Each ends the connection, and is not answered.
TEST(PsManners, WhatIsNotTheCallersToSendEndsItsConnection) {
  const CopyMessage copy_message{ShardView(), copying::FillRequest{}};
  const std::vector<std::pair<std::string, std::string>> messages{
      {"another worker's", Pull({1, kBorn})},
      {"an older process's", Pull({0, Incarnation(2)})},
      {"of a shard that is elsewhere", Pull({0, kBorn}, 1)},
      {"of no shard", Pull({0, kBorn}, testing::PsGang::kPsCount)},
      {"a ps's", EncodeShardFrame({0, copy_message})},
      {"an answer", EncodeShardFrame({0, WorkerReply{}})},
      {"nothing", ""},
      {"no frame", "what is this"}};
  for (const auto& [name, bytes] : messages) {
    SCOPED_TRACE(name);
    testing::PsGang gang(TwoWorkers());
    Caller caller(gang, WorkerIdentity());
    ASSERT_EQ(NextKind(&caller), CallerNews::Kind::kUp);

    caller.Send(bytes);

    EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kDown);
  }
}

TEST(PsManners, PsSpeaksForItselfOnly) {
  testing::PsGang gang(TwoWorkers());
  MeshIdentity partner = WorkerIdentity();
  partner.rank = PsPlace(kWorkerCount, 1);
  Caller caller(gang, partner);
  ASSERT_EQ(NextKind(&caller), CallerNews::Kind::kUp);

  // Ps 0 holds shards 0, with ps 1, and 2, with ps 2.
  caller.Send(EncodeShardFrame({2, CopyMessage{ShardView(), copying::Notice{}}}));

  EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kDown);
}

TEST(PsManners, CallerOfAnotherJobOrPlaceIsNotLetIn) {
  const std::vector<std::pair<std::string, void (*)(MeshIdentity*)>> others{
      {"a later attempt", [](MeshIdentity* self) { self->attempt = Attempt(1); }},
      {"another size", [](MeshIdentity* self) { self->world_size = kWorkerCount + 1; }},
      {"a ps too many",
       [](MeshIdentity* self) { self->rank = PsPlace(kWorkerCount, testing::PsGang::kPsCount); }},
      {"its own place", [](MeshIdentity* self) { self->rank = PsPlace(kWorkerCount, 0); }},
      {"another job", [](MeshIdentity* self) { self->job_uid = "other"; }}};
  for (const auto& [name, change] : others) {
    SCOPED_TRACE(name);
    testing::PsGang gang(TwoWorkers());
    MeshIdentity identity = WorkerIdentity();
    change(&identity);
    Caller caller(gang, identity);

    EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kDown);
  }
}

TEST(PsManners, CallerWithoutTheJobsKeyIsNotLetIn) {
  testing::PsGang gang(TwoWorkers());
  Caller caller(gang, WorkerIdentity(), "another key");

  EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kDown);
}

TEST(PsManners, CallerThatHasASuccessorIsToldSo) {
  testing::PsGang gang(TwoWorkers());
  Caller successor(gang, WorkerIdentity());
  ASSERT_EQ(NextKind(&successor), CallerNews::Kind::kUp);
  MeshIdentity older = WorkerIdentity();
  older.incarnation = Incarnation(2);
  Caller caller(gang, older);

  EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kRefused);

  caller.calls()->Want(0, SteadyNow());
  caller.calls()->Want(1, SteadyNow());
  EXPECT_EQ(caller.calls()->NextTimeout(), TimePoint::max()) << "nobody is called again";
}

// Its host may be silent, or the process may live on: neither ends the connection.
TEST(PsManners, ConnectionToAProcessThatWasReplacedEndsAndNoNewOneIsMade) {
  testing::PsGang gang(TwoWorkers());
  Caller caller(gang, WorkerIdentity());
  ASSERT_EQ(NextKind(&caller), CallerNews::Kind::kUp);

  caller.calls()->NoteNewest(0, Incarnation(1), SteadyNow());

  EXPECT_FALSE(caller.calls()->IsUp(0));
  EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kDown);
  EXPECT_EQ(NextKind(&caller), CallerNews::Kind::kDown) << "the old process answers";
  gang.Kill(0);
  gang.Replace(0);
  std::optional<CallerNews> news = caller.Next();
  while (news.has_value() && news->kind == CallerNews::Kind::kDown) {
    news = caller.Next();
  }
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->kind, CallerNews::Kind::kUp);
}

// The ps that are there hear of it after it has asked them.
TEST(PsManners, SuccessorIsFilledThoughOthersHearOfItLate) {
  testing::PsGang gang(TwoWorkers());
  ASSERT_TRUE(gang.AwaitWhole());
  gang.Kill(1);

  gang.Replace(1, testing::PsGang::Told::kAfterItsStart);

  EXPECT_TRUE(gang.AwaitWhole());
}

}  // namespace
}  // namespace lockstep::runtime
