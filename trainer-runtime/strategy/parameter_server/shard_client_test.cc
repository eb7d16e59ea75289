#include "trainer-runtime/strategy/parameter_server/shard_client.h"

#include <gtest/gtest.h>

#include "trainer-runtime/strategy/parameter_server/testing/shard_values.h"

namespace lockstep::runtime {
namespace {

using testing::Values;
using testing::ViewOf;

constexpr WorkerProcess kWorker{0, Incarnation(0)};

// Where the client asks, in order.
std::vector<ShardPlace> Asked(ShardClient* client) {
  std::vector<ShardPlace> places;
  for (const AddressedRequest& request : client->TakeRequests()) {
    places.push_back(request.place);
  }
  return places;
}

constexpr ShardPlace kHome = ShardPlace::kHome;
constexpr ShardPlace kBuddy = ShardPlace::kBuddy;

TEST(ShardClient, PushesAreNumberedByWhatIsAcknowledged) {
  ShardClient client(kWorker, /*has_buddy=*/true);
  client.Push({Values({1}), {}}, 1);
  const WorkerRequest first = client.TakeRequests().at(0).request;
  EXPECT_EQ(first.sequence, 1);
  EXPECT_EQ(client.sequence(), 0);

  client.OnReply({ViewOf(0, 0, 0), kWorker, first.number, reply::Done{}});
  EXPECT_EQ(client.TakeOutcome(), RequestOutcome::kDone);
  EXPECT_EQ(client.sequence(), 1);
}

// What its predecessor got through is not done again.
TEST(ShardClient, PushThatTheShardIsKnownToHaveIsDoneAtOnce) {
  ShardClient client({0, Incarnation(1)}, /*has_buddy=*/true);
  client.Pull({});
  const WorkerRequest pull = client.TakeRequests().at(0).request;
  client.OnReply({pull.view,
                  pull.process,
                  pull.number,
                  reply::Pulled{7, Values({1}), nullptr, 3, kGateOpen, nullptr}});
  client.TakeOutcome();

  client.Push({Values({1}), {}}, 3);
  EXPECT_EQ(client.TakeOutcome(), RequestOutcome::kDone);
  EXPECT_TRUE(client.TakeRequests().empty());

  client.Push({Values({1}), {}}, 4);
  EXPECT_EQ(client.TakeRequests().at(0).request.sequence, 4);
}

TEST(ShardClient, AnswerToAnEarlierRequestIsNotTaken) {
  ShardClient client(kWorker, /*has_buddy=*/true);
  client.Push({Values({1}), {}}, 1);
  const int64_t number = client.TakeRequests().at(0).request.number;
  client.OnReply({ViewOf(0, 0, 0), kWorker, number, reply::Done{}});
  client.TakeOutcome();
  client.Leave();

  client.OnReply({ViewOf(0, 0, 0), kWorker, number, reply::Done{}});

  EXPECT_TRUE(client.is_busy());
}

TEST(ShardClient, SilentCopyIsLeftForTheOtherOneAndTheRequestIsTheSame) {
  ShardClient client(kWorker, /*has_buddy=*/true);
  client.Push({Values({1}), {}}, 1);
  const WorkerRequest first = client.TakeRequests().at(0).request;

  client.Resend();

  const AddressedRequest again = client.TakeRequests().at(0);
  EXPECT_EQ(again.place, kBuddy);
  EXPECT_EQ(again.request.number, first.number);
  EXPECT_EQ(again.request.sequence, first.sequence);
}

TEST(ShardClient, WithoutBuddyTheSameCopyIsAskedAgain) {
  ShardClient client(kWorker, /*has_buddy=*/false);
  client.Pull({});
  client.Resend();

  EXPECT_EQ(Asked(&client), (std::vector<ShardPlace>{kHome, kHome}));
}

TEST(ShardClient, TwoCopiesThatDoNotServeAreAskedOnceUntilResend) {
  ShardClient client(kWorker, /*has_buddy=*/true);
  client.Pull({});
  const int64_t number = client.TakeRequests().at(0).request.number;

  client.OnReply({ViewOf(0, 0, 0), kWorker, number, reply::NotServing{}});
  EXPECT_EQ(Asked(&client), std::vector<ShardPlace>{kBuddy});
  client.OnReply({ViewOf(0, 0, 0), kWorker, number, reply::NotServing{}});
  EXPECT_EQ(Asked(&client), std::vector<ShardPlace>{});
  client.Resend();
  EXPECT_EQ(Asked(&client), std::vector<ShardPlace>{kHome});
}

TEST(ShardClient, HigherTermTurnsTheRequestToWhoServesInIt) {
  ShardClient client(kWorker, /*has_buddy=*/true);
  client.Pull({});
  const int64_t number = client.TakeRequests().at(0).request.number;

  client.OnView(ViewOf(1, 1, 0));
  EXPECT_EQ(Asked(&client), std::vector<ShardPlace>{kBuddy});

  client.OnReply(
      {ViewOf(0, 0, 0), kWorker, number, reply::Pulled{5, Values({1}), nullptr, 0, 0, nullptr}});
  EXPECT_TRUE(client.is_busy()) << "an answer of the old term";
  client.OnReply(
      {ViewOf(1, 1, 0), kWorker, number, reply::Pulled{6, Values({2}), nullptr, 0, 0, nullptr}});
  EXPECT_EQ(client.TakeOutcome(), RequestOutcome::kPulled);
  EXPECT_EQ(client.values().update_count, 6);
}

}  // namespace
}  // namespace lockstep::runtime
