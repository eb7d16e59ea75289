// The contract of Transport::StartCall, for every implementation.

#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::Fault;
using kube::FaultKind;
using kube::Reply;

class TransportCall : public TransportTest {};

TEST_P(TransportCall, ReplyCarriesStatusBodyAndRetryAfter) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.Reply(429, "slow down", "Retry-After: 7\r\n");
  });
  const auto reply = std::get<Reply>(CallAndWait(transport(), RequestFor("GET", "/api")));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.body, "slow down");
  EXPECT_EQ(reply.retry_after, std::chrono::seconds(7));
}

TEST_P(TransportCall, DateOfAReplyTellsTheServersClock) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.Reply(200, "{}", "Date: Wed, 02 Dec 2026 12:00:00 GMT\r\n");
  });
  ServerClock clock;
  options().server_clock = &clock;
  EXPECT_EQ(Outcome(CallAndWait(transport(), RequestFor("GET", "/api"))), "200");
  const auto range = clock.At(SteadyNow()).value_or(ServerClock::Range{});
  EXPECT_EQ(FormatRfc3339(range.earliest).substr(0, 14), "2026-12-02T12:");
  CloseTransport();
}

TEST_P(TransportCall, RequestCarriesEverything) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(201, "{}"); });
  credentials().SetToken("secret");
  kube::Request request = RequestFor("POST", "/apis/x?a=%20b");
  request.content_type = "application/json";
  request.body = "{\"kind\":\"Pod\"}";
  EXPECT_EQ(Outcome(CallAndWait(transport(), request)), "201");
  const TestRequest seen = server().requests().at(0);
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/apis/x?a=%20b");
  EXPECT_EQ(seen.body, "{\"kind\":\"Pod\"}");
  EXPECT_EQ(seen.headers.at("content-type"), "application/json");
  EXPECT_EQ(seen.headers.at("authorization"), "Bearer secret");
  EXPECT_EQ(seen.headers.at("accept"), "application/json");
  EXPECT_EQ(seen.headers.at("user-agent"), "lockstep-test");
  EXPECT_EQ(seen.headers.at("host"), "127.0.0.1:" + std::to_string(server().port()));
}

TEST_P(TransportCall, ChunkedBodyIsPutTogether) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    for (const char* part : {"a", "bc", "def"}) {
      peer.Chunk(part);
    }
    peer.EndChunks();
  });
  EXPECT_EQ(std::get<Reply>(CallAndWait(transport(), RequestFor("GET", "/"))).body, "abcdef");
}

TEST_P(TransportCall, CallsInTurnShareAConnection) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(200, "{}"); });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Outcome(CallAndWait(transport(), RequestFor("GET", "/"))), "200");
  }
  EXPECT_EQ(server().connection_count(), 1);
}

TEST_P(TransportCall, ManyCallsStayWithinTheConnectionLimit) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(200, "{}"); });
  std::vector<std::future<std::string>> outcomes;
  for (int i = 0; i < 64; ++i) {
    auto outcome = std::make_shared<std::promise<std::string>>();
    outcomes.push_back(outcome->get_future());
    transport()->StartCall(
        RequestFor("GET", "/" + std::to_string(i)), {}, [outcome](const kube::CallResult& result) {
          outcome->set_value(Outcome(result));
        });
  }
  for (auto& outcome : outcomes) {
    EXPECT_EQ(outcome.get(), "200");
  }
  EXPECT_LE(server().open_count_max(), kConnectionsMax);
  EXPECT_EQ(server().requests().size(), 64U);
}

LOCKSTEP_FOR_ALL_TRANSPORTS(TransportCall);

}  // namespace
}  // namespace lockstep::control
