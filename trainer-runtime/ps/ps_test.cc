#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/ps/ps_client.h"
#include "trainer-runtime/ps/ps_server.h"
#include "trainer-runtime/ps/testing/ps_gang.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Within;

const std::vector<int64_t> kCounts{40, 3, 17};
constexpr std::size_t kSize = 60;
constexpr int kPsCount = testing::PsGang::kPsCount;

// Sums, exactly: what was applied shows, in whatever order.
void AddUp(int64_t /*update_number*/,
           std::span<const float> gradient,
           std::vector<float>* parameters,
           std::vector<float>* slots) {
  for (std::size_t i = 0; i < parameters->size(); ++i) {
    (*parameters)[i] += gradient[i];
    (*slots)[i] += 1;
  }
}

testing::PsGangOptions Options(int worker_count, int64_t max_staleness = 1000) {
  testing::PsGangOptions options;
  options.worker_count = worker_count;
  options.max_staleness = max_staleness;
  options.element_counts = kCounts;
  options.slot_count = 1;
  options.rule = AddUp;
  return options;
}

void SeedWithZeros(PsClient* client) {
  const std::vector<float> zeros(kSize, 0);
  const Status seeded = client->Seed(zeros, zeros, {}, Within(seconds(10)));
  ASSERT_TRUE(seeded.ok()) << seeded.error().ToString();
}

TEST(PsGang, WhatIsPushedIsPulledWithItsSlots) {
  testing::PsGang gang(Options(1));
  const std::unique_ptr<PsClient> worker = gang.Worker(0);
  std::vector<float> parameters(kSize);
  std::vector<float> slots(kSize);
  EXPECT_EQ(worker->Pull(parameters, {}, {}, Within(seconds(10))).error().code(),
            ErrorCode::kNotFound);
  SeedWithZeros(worker.get());
  std::vector<float> gradient(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    gradient[i] = static_cast<float>(i);
  }

  ASSERT_TRUE(worker->Pull(parameters, {}, {}, Within(seconds(10))).ok());
  ASSERT_TRUE(worker->Push(gradient, {1, {}}, Within(seconds(10))).ok());
  const Result<PulledCounts> counts = worker->Pull(parameters, slots, {}, Within(seconds(10)));

  ASSERT_TRUE(counts.ok()) << counts.error().ToString();
  EXPECT_EQ(counts->least, 1);
  EXPECT_EQ(counts->most, 1);
  EXPECT_EQ(parameters, gradient);
  EXPECT_EQ(slots, std::vector<float>(kSize, 1));
  EXPECT_TRUE(worker->Leave(Within(seconds(10))).ok());
}

TEST(PsGang, WorkerThatNobodyAnswersGivesUpAtItsDeadlineAndSaysWhoWasSilent) {
  testing::PsGang gang(Options(1));
  for (int ps = 0; ps < kPsCount; ++ps) {
    gang.Kill(ps);
  }
  const std::unique_ptr<PsClient> worker = gang.Worker(0);
  std::vector<float> parameters(kSize);

  const TimePoint begin = SteadyNow();
  const Result<PulledCounts> pulled = worker->Pull(parameters, {}, {}, Within(milliseconds(300)));

  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().code(), ErrorCode::kTimeout);
  EXPECT_NE(pulled.error().message().find("shards 0 (ps "), std::string::npos);
  EXPECT_LT(SteadyNow() - begin, seconds(5));
}

TEST(PsGang, WorkerTooFarAheadWaitsUntilTheOtherIsGone) {
  testing::PsGang gang(Options(2, /*max_staleness=*/0));
  const std::unique_ptr<PsClient> first = gang.Worker(0);
  const std::unique_ptr<PsClient> second = gang.Worker(1);
  SeedWithZeros(first.get());
  std::vector<float> parameters(kSize);
  const std::vector<float> ones(kSize, 1);
  ASSERT_TRUE(first->Pull(parameters, {}, {}, Within(seconds(10))).ok());
  ASSERT_TRUE(second->Pull(parameters, {}, {}, Within(seconds(10))).ok());
  ASSERT_TRUE(first->Push(ones, {1, {}}, Within(seconds(10))).ok());

  std::atomic<bool> is_through = false;
  std::thread waiting(
      [&] { is_through = first->Pull(parameters, {}, {}, Within(seconds(20))).ok(); });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(is_through.load());
  gang.NoteWorkerGone(1, Incarnation(1));
  waiting.join();

  EXPECT_TRUE(is_through.load());
  EXPECT_EQ(second->Push(ones, {1, {}}, Within(seconds(10))).error().code(), ErrorCode::kStale);
}

TEST(PsGang, WhatIsFinalIsToldThoughAnotherPsIsSilent) {
  testing::PsGang gang(Options(2));
  const std::unique_ptr<PsClient> worker = gang.Worker(0);
  SeedWithZeros(worker.get());
  gang.NoteWorkerGone(0, Incarnation(1));
  gang.Kill(1);

  std::vector<float> parameters(kSize);
  const Result<PulledCounts> pulled = worker->Pull(parameters, {}, {}, Within(seconds(60)));

  ASSERT_FALSE(pulled.ok());
  EXPECT_EQ(pulled.error().code(), ErrorCode::kStale) << pulled.error().ToString();
}

// Two workers push while ps after ps is killed and replaced: the sum says how often each counted.
TEST(PsGang, KilledPsLosesNothingAndNothingCountsTwice) {
  constexpr int kDeaths = 20;
  testing::PsGang gang(Options(2));
  SeedWithZeros(gang.Worker(0, 0).get());
  std::atomic<bool> is_over = false;
  std::atomic<int64_t> acknowledged = 0;
  std::vector<std::thread> workers;
  for (int number = 0; number < 2; ++number) {
    workers.emplace_back([&, number] {
      const std::unique_ptr<PsClient> worker = gang.Worker(number, 1);
      std::vector<float> parameters(kSize);
      const std::vector<float> ones(kSize, 1);
      while (!is_over) {
        const Result<PulledCounts> pulled = worker->Pull(parameters, {}, {}, Within(seconds(30)));
        ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
        const Status pushed = worker->Push(ones, {pulled->sequence + 1, {}}, Within(seconds(30)));
        ASSERT_TRUE(pushed.ok()) << pushed.error().ToString();
        ++acknowledged;
      }
      EXPECT_TRUE(worker->Leave(Within(seconds(30))).ok());
    });
  }
  for (int death = 0; death < kDeaths; ++death) {
    EXPECT_TRUE(gang.AwaitWhole()) << "before death " << death;
    // Something is pushed between two deaths, however busy the machine; then the next comes at
    // another moment of a push.
    const Deadline pushed_by = Deadline::After(SteadyNow(), seconds(30));
    while (acknowledged <= death + 1 && !pushed_by.HasPassed(SteadyNow())) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(death * 7 % 30));
    gang.Kill(death % kPsCount);
    std::this_thread::sleep_for(milliseconds(death % 3 * 20));
    gang.Replace(death % kPsCount);
  }
  EXPECT_TRUE(gang.AwaitWhole());
  is_over = true;
  for (std::thread& worker : workers) {
    worker.join();
  }

  std::vector<float> parameters(kSize);
  std::vector<float> slots(kSize);
  const Result<PulledCounts> counts =
      gang.Worker(0, 2)->Pull(parameters, slots, {}, Within(seconds(10)));
  ASSERT_TRUE(counts.ok()) << counts.error().ToString();
  const auto expected = static_cast<float>(acknowledged.load());
  EXPECT_GT(acknowledged.load(), kDeaths);
  EXPECT_EQ(parameters, std::vector<float>(kSize, expected));
  EXPECT_EQ(slots, parameters);
  EXPECT_EQ(counts->most, acknowledged.load());
}

TEST(PsGang, WorkerThatHasASuccessorIsRefused) {
  testing::PsGang gang(Options(1));
  const std::unique_ptr<PsClient> worker = gang.Worker(0);
  SeedWithZeros(worker.get());
  std::vector<float> parameters(kSize);
  ASSERT_TRUE(worker->Pull(parameters, {}, {}, Within(seconds(10))).ok());
  const std::unique_ptr<PsClient> successor = gang.Worker(0, 1);
  ASSERT_TRUE(successor->Pull(parameters, {}, {}, Within(seconds(10))).ok());

  EXPECT_EQ(worker->Push(std::vector<float>(kSize, 1), {1, {}}, Within(seconds(10))).error().code(),
            ErrorCode::kStale);
}

TEST(PsServer, ViewsWithoutItsOwnProcessAreRefused) {
  const std::unique_ptr<Logger> logger = MakeNullLogger();
  PsServerOptions options;
  options.identity = {"uid", Attempt(), 1, 1, Incarnation(3)};
  options.addresses = {"127.0.0.1:1"};
  options.views = std::vector<ShardView>(1);
  options.rule = AddUp;
  options.logger = logger.get();

  EXPECT_EQ(PsServer::Start(std::move(options)).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::runtime
