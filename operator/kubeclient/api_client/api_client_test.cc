// What ApiClient sends again and what it never does, over every transport.

#include "operator/kubeclient/api_client/api_client.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::CallResult;
using kube::Fault;
using kube::FaultKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ApiClientTest : public TransportTest {
 protected:
  void TearDown() override {
    client_ = nullptr;  // before its transport
    TransportTest::TearDown();
  }

  // Changed before the first call of client().
  ApiClientOptions& client_options() { return client_options_; }

  ApiClient& client() {
    if (client_ == nullptr) {
      client_options_.calls.transport = transport();
      client_options_.calls.credentials = &credentials();
      client_options_.calls.clock = &clock_;
      client_options_.calls.reset_pause = milliseconds(0);
      client_ = std::make_unique<ApiClient>(client_options_);
    }
    return *client_;
  }

  std::string Call(const std::string& method) {
    return Outcome(client().Call(RequestFor(method, "/")));
  }

  // Lets the next call go to the present server.
  void Restart() {
    client_ = nullptr;
    CloseTransport();
  }

  SystemClock clock_;

 private:
  ApiClientOptions client_options_;
  std::unique_ptr<ApiClient> client_;
};

TEST_P(ApiClientTest, AnswersComeInTheOrderOfTheRequests) {
  Serve([](const TestRequest& request, TestPeer& peer) { peer.Reply(200, request.target); });
  std::vector<kube::Request> requests;
  for (int i = 0; i < 64; ++i) {
    requests.push_back(RequestFor(i % 2 == 0 ? "GET" : "POST", "/" + std::to_string(i)));
  }
  const std::vector<CallResult> results = client().CallAll(requests);
  ASSERT_EQ(results.size(), requests.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& target = std::get<kube::Reply>(results[i]).body;  // "?timeout=.." of writes
    EXPECT_EQ(target.substr(0, target.find('?')), "/" + std::to_string(i));
  }
  EXPECT_LE(server().open_count_max(), kConnectionsMax);
}

TEST_P(ApiClientTest, NothingToCallIsNothing) {
  Serve([](const TestRequest&, TestPeer&) {});
  EXPECT_TRUE(client().CallAll({}).empty());
}

// The first reply of a server that is fine from then on, and what becomes of the call.
struct FirstReply {
  int status;
  const char* headers;
  const char* method;
  const char* outcome;
  std::size_t request_count;
};

constexpr FirstReply kFirstReplies[] = {
    {429, "Retry-After: 0\r\n", "GET", "200", 2},
    {429, "Retry-After: 0\r\n", "POST", "200", 2},
    {429, "", "GET", "429", 1},
    {503, "Retry-After: 0\r\n", "POST", "200", 2},
    {503, "", "GET", "503", 1},
    {500, "", "POST", "500", 1},
    {409, "Retry-After: 0\r\n", "POST", "409", 1},
    {429, "Retry-After: 1000\r\n", "GET", "429", 1},  // longer than the batch may take
};

TEST_P(ApiClientTest, OnlyWhatTheServerPutsOffIsTriedAgain) {
  for (const FirstReply& first : kFirstReplies) {
    SCOPED_TRACE(std::string(first.method) + " " + std::to_string(first.status) + " " +
                 first.headers);
    std::atomic<int> count{0};
    const ServerEnd end(this);
    Serve([&](const TestRequest&, TestPeer& peer) {
      if (count++ == 0) {
        peer.Reply(first.status, "", first.headers);
      } else {
        peer.Reply(200, "");
      }
    });
    Restart();
    EXPECT_EQ(Call(first.method), first.outcome);
    EXPECT_EQ(server().requests().size(), first.request_count);
  }
}

TEST_P(ApiClientTest, TriesAreLimited) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(429, "", "Retry-After: 0\r\n"); });
  EXPECT_EQ(Call("GET"), "429");
  EXPECT_EQ(server().requests().size(), 11U);
}

TEST_P(ApiClientTest, GetIsTriedAgainAfterAReset) {
  std::atomic<int> count{0};
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    if (count++ == 0) {
      peer.Reset();
    } else {
      peer.Reply(200, "");
    }
  });
  EXPECT_EQ(Call("GET"), "200");
}

// The server may have created the object before it died: only the caller can find out.
TEST_P(ApiClientTest, PostIsNeverReplayed) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    if (request.method == "GET") {
      peer.Reply(200, "");
    } else {
      peer.Close();
    }
  });
  EXPECT_EQ(Call("GET"), "200");  // the connection is in the pool now
  const CallResult result = client().Call(RequestFor("POST", "/"));
  ASSERT_EQ(Outcome(result), "reset");
  EXPECT_TRUE(std::get<Fault>(result).request_sent);
  EXPECT_EQ(server().requests().size(), 2U);
  EXPECT_EQ(server().connection_count(), 1);
}

TEST_P(ApiClientTest, PooledConnectionThatTheServerClosedIsNotUsed) {
  if (IsCpprest()) {
    GTEST_SKIP() << "cpprestsdk cannot look at a pooled connection: the write comes back as reset";
  }
  std::promise<void> closed;
  const ServerEnd end(this);
  Serve([&](const TestRequest& request, TestPeer& peer) {
    peer.Reply(200, "");
    if (request.connection == 0) {
      peer.Close();
      peer.AwaitGoodbyeSeen();
      closed.set_value();
    }
  });
  EXPECT_EQ(Call("GET"), "200");
  closed.get_future().wait();
  EXPECT_EQ(Call("POST"), "200");
  EXPECT_EQ(server().connection_count(), 2);
}

TEST_P(ApiClientTest, OnlyALeaderChangesAnything) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(200, ""); });
  std::atomic<TimePoint> leads_until{TimePoint::min()};
  client_options().calls.write_timeout = seconds(5);
  client_options().calls.leads_until = [&] { return leads_until.load(); };
  EXPECT_EQ(Call("GET"), "200");
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    const CallResult result = client().Call(RequestFor(method, "/"));
    ASSERT_EQ(Outcome(result), "not_leader");
    EXPECT_FALSE(std::get<Fault>(result).request_sent);
  }
  leads_until = clock_.Now() + seconds(4);  // a write might last longer than the lease
  EXPECT_EQ(Call("POST"), "not_leader");
  leads_until = clock_.Now() + seconds(3600);
  EXPECT_EQ(Call("POST"), "200");
  EXPECT_EQ(server().requests().size(), 2U);
}

// A write is fenced again before each try.
TEST_P(ApiClientTest, LeadershipThatEndsBetweenTriesEndsThem) {
  std::atomic<TimePoint> leads_until{clock_.Now() + seconds(3600)};
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    leads_until = TimePoint::min();
    peer.Reply(429, "", "Retry-After: 0\r\n");
  });
  client_options().calls.leads_until = [&] { return leads_until.load(); };
  EXPECT_EQ(Call("POST"), "not_leader");
  EXPECT_EQ(server().requests().size(), 1U);
}

TEST_P(ApiClientTest, RefusedTokenIsReplacedOnce) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    peer.Reply(request.headers.at("authorization") == "Bearer new" ? 200 : 401, "");
  });
  credentials().SetToken("old");
  credentials().SetOnRefused([this] { credentials().SetToken("new"); });
  EXPECT_EQ(Call("POST"), "200");
  EXPECT_EQ(server().requests().size(), 2U);
  credentials().SetToken("wrong");
  credentials().SetOnRefused([this] { credentials().SetToken("wrong too"); });
  EXPECT_EQ(Call("GET"), "401");
  EXPECT_EQ(server().requests().size(), 4U);
}

TEST_P(ApiClientTest, RefusedTokenWithoutANewerOneIsAnAnswer) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(401, ""); });
  EXPECT_EQ(Call("GET"), "401");
  EXPECT_EQ(server().requests().size(), 1U);
}

// In each round the token changes once: a call that is refused twice is an error by contract, and
// with a second change it might be.
TEST_P(ApiClientTest, TokenRotatesUnderLoadWithoutAnError) {
  constexpr int kRounds = 8;
  constexpr int kWorkers = 8;
  constexpr int kCallsOfAWorker = 12;
  std::mutex mutex;
  int token = 0;
  int answers_until_change = 0;
  const ServerEnd end(this);
  Serve([&](const TestRequest& request, TestPeer& peer) {
    std::unique_lock lock(mutex);
    const bool is_valid = request.headers.at("authorization") == "Bearer " + std::to_string(token);
    if (is_valid && --answers_until_change == 0) {
      ++token;  // what everybody holds is void from now on
      credentials().SetOnRefused(
          [this, now = token] { credentials().SetToken(std::to_string(now)); });
    }
    lock.unlock();
    peer.Reply(is_valid ? 200 : 401, "");
  });
  credentials().SetToken("0");
  client();
  for (int round = 0; round < kRounds; ++round) {
    {
      const std::lock_guard lock(mutex);
      answers_until_change = kWorkers * kCallsOfAWorker / 2;
    }
    std::vector<std::future<int>> failures;
    for (int worker = 0; worker < kWorkers; ++worker) {
      failures.push_back(std::async(std::launch::async, [this] {
        int failure_count = 0;
        for (int i = 0; i < kCallsOfAWorker; ++i) {
          failure_count += Call("GET") == "200" ? 0 : 1;
        }
        return failure_count;
      }));
    }
    for (auto& failure_count : failures) {
      EXPECT_EQ(failure_count.get(), 0) << "round " << round;
    }
  }
  EXPECT_EQ(token, kRounds);
  EXPECT_GE(credentials().refused_count(), kRounds);
}

TEST_P(ApiClientTest, BatchEndsByItsDeadline) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    if (request.target == "/fast") {
      peer.Reply(200, "");
    } else {
      peer.AwaitClose();
    }
  });
  client_options().calls.total_timeout = milliseconds(500);
  const auto results = client().CallAll({RequestFor("GET", "/slow"), RequestFor("GET", "/fast")});
  EXPECT_EQ(Outcome(results[0]), "timeout");
  const auto seen = server().requests();
  const bool has_arrived = std::any_of(
      seen.begin(), seen.end(), [](const TestRequest& one) { return one.target == "/slow"; });
  EXPECT_TRUE(std::get<Fault>(results[0]).request_sent || !has_arrived);
}

class RecordingObserver final : public CallObserver {
 public:
  void OnCall(const CallRecord& record) override {
    const std::lock_guard lock(mutex_);
    text_ += std::string(record.method) + " " +
             (record.fault ? std::string(kube::FaultKindName(*record.fault))
                           : std::to_string(record.http_status)) +
             (record.is_retry ? " again" : "") + " " + std::to_string(record.request_bytes) + "/" +
             std::to_string(record.reply_bytes) + "\n";
  }

  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

TEST_P(ApiClientTest, EveryExchangeIsCounted) {
  std::atomic<int> count{0};
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    if (count++ == 0) {
      peer.Reply(429, "busy", "Retry-After: 0\r\n");
    } else {
      peer.Reset();
    }
  });
  RecordingObserver observer;
  client_options().calls.observer = &observer;
  kube::Request request = RequestFor("POST", "/");
  request.body = "abc";
  EXPECT_EQ(Outcome(client().Call(request)), "reset");
  EXPECT_EQ(observer.text(), "POST 429 3/4\nPOST reset again 3/0\n");
}

LOCKSTEP_FOR_ALL_TRANSPORTS(ApiClientTest);

}  // namespace
}  // namespace lockstep::control
