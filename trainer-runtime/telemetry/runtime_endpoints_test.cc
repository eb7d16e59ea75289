#include "trainer-runtime/telemetry/runtime_endpoints.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kKey = "secret";

class RuntimeEndpoints : public ::testing::Test {
 protected:
  HttpServerResponse Get(const std::string& path, const std::string& authorization = {}) {
    HttpServerRequest request;
    request.headers["authorization"] = authorization;
    return routes_.at(path).at("GET")(request);
  }

  HttpServerResponse Post(const std::string& body, const std::string& signature) {
    HttpServerRequest request;
    request.headers["x-lockstep-signature"] = signature;
    request.body = body;
    return routes_.at("/control").at("POST")(request);
  }

  HttpServerResponse PostSigned(const ControlMessage& message) {
    const std::string body = EncodeControlMessage(message);
    return Post(body, SignControlBody(kKey, body));
  }

  static ControlMessage Gone(int64_t counter) {
    ControlMessage message;
    message.job_uid = "uid";
    message.attempt = Attempt(2);
    message.counter = counter;
    message.kind = ControlKind::kPeerGone;
    message.rank = 1;
    message.epoch = Epoch(8);
    message.incarnation = Incarnation(1);
    return message;
  }

  RuntimeEndpointsOptions Options(const std::string& key) {
    RuntimeEndpointsOptions options;
    options.job_uid = "uid";
    options.pod = "mnist-worker-0";
    options.attempt = Attempt(2);
    options.job_key = key;
    options.board = &board_;
    options.metrics = &metrics_;
    options.logger = logger_.get();
    options.on_control = [this](const ControlMessage& message) {
      counters_.push_back(message.counter);
    };
    return options;
  }

  StatusBoard board_{StatusDocument{}};
  Metrics metrics_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::vector<int64_t> counters_;  // of the messages that came through
  HttpRoutes routes_ = MakeRuntimeRoutes(Options(kKey));
};

TEST_F(RuntimeEndpoints, HealthFollowsThePhase) {
  EXPECT_EQ(Get("/healthz").status, 200);
  board_.SetPhase(Phase::kFailed);
  EXPECT_EQ(Get("/healthz").status, 503);
}

TEST_F(RuntimeEndpoints, MetricsAreOpenToScrapers) {
  const HttpServerResponse response = Get("/metrics");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4");
  EXPECT_THAT(response.body, HasSubstr("lockstep_samples_total"));
}

TEST_F(RuntimeEndpoints, MetricsOfThePodFollowThoseOfTheProcessOrProcesses) {
  RuntimeEndpointsOptions options = Options(kKey);
  options.pod_metrics = [] { return std::string("of the pod\n"); };
  routes_ = MakeRuntimeRoutes(options);
  EXPECT_THAT(Get("/metrics").body, HasSubstr("lockstep_samples_total"));
  EXPECT_TRUE(Get("/metrics").body.ends_with("\nof the pod\n"));
  options.metrics_page = [] { return std::string("of its processes\n"); };
  routes_ = MakeRuntimeRoutes(options);
  EXPECT_EQ(Get("/metrics").body, "of its processes\nof the pod\n");
}

TEST_F(RuntimeEndpoints, StatusIsForHoldersOfTheToken) {
  EXPECT_EQ(Get("/status").status, 401);
  EXPECT_EQ(Get("/status", "Bearer guess").status, 401);
  board_.Update([](StatusDocument& document) { document.job = "mnist"; });
  const WallTime now = SystemClock().WallNow();
  EXPECT_EQ(Get("/status", "Bearer " + StatusToken(kKey, "mnist-worker-1", now)).status, 401);
  const HttpServerResponse response =
      Get("/status", "Bearer " + StatusToken(kKey, "mnist-worker-0", now));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr("\"mnist\""));
}

TEST_F(RuntimeEndpoints, TokenOfAnotherTimeIsToldFromOneThatIsNotSigned) {
  const WallTime before = SystemClock().WallNow() - std::chrono::hours(2);
  const HttpServerResponse old =
      Get("/status", "Bearer " + StatusToken(kKey, "mnist-worker-0", before));
  EXPECT_EQ(old.status, 401);
  EXPECT_EQ(old.body, "{\"error\":\"expired\"}\n");
  const HttpServerResponse foreign =
      Get("/status", "Bearer " + StatusToken("another", "mnist-worker-0", before));
  EXPECT_EQ(foreign.status, 401);
  EXPECT_THAT(foreign.body, HasSubstr("signed with the job's key"));
}

TEST_F(RuntimeEndpoints, SignedControlMessageComesThroughOnce) {
  EXPECT_EQ(PostSigned(Gone(3)).status, 200);
  EXPECT_EQ(PostSigned(Gone(3)).status, 409);
  EXPECT_EQ(PostSigned(Gone(2)).status, 409);
  EXPECT_EQ(PostSigned(Gone(4)).status, 200);
  EXPECT_THAT(counters_, ElementsAre(3, 4));
  EXPECT_THAT(Get("/metrics").body, HasSubstr("control_messages_total{verdict=\"accepted\"} 2\n"));
  EXPECT_THAT(Get("/metrics").body, HasSubstr("control_messages_total{verdict=\"stale\"} 2\n"));
}

// Whoever kept a copy of a stop that ended this rank's last pod cannot stop its replacement.
TEST_F(RuntimeEndpoints, MessagesFromBeforeBirthAreStale) {
  RuntimeEndpointsOptions options = Options(kKey);
  options.control_counter = 7;
  routes_ = MakeRuntimeRoutes(options);
  ControlMessage stop = Gone(7);
  stop.kind = ControlKind::kStop;
  EXPECT_EQ(PostSigned(stop).status, 409);
  stop.counter = 8;
  EXPECT_EQ(PostSigned(stop).status, 200);
  EXPECT_THAT(counters_, ElementsAre(8));
}

TEST_F(RuntimeEndpoints, ForgedOrForeignControlMessagesAreRefused) {
  const std::string body = EncodeControlMessage(Gone(1));
  EXPECT_EQ(Post(body, "").status, 401);
  EXPECT_EQ(Post(body, SignControlBody("other", body)).status, 401);
  EXPECT_EQ(Post(body + " ", SignControlBody(kKey, body)).status, 401);
  EXPECT_EQ(Post("{}", SignControlBody(kKey, "{}")).status, 400);
  ControlMessage other_attempt = Gone(1);
  other_attempt.attempt = Attempt(1);
  EXPECT_EQ(PostSigned(other_attempt).status, 409);
  ControlMessage other_job = Gone(1);
  other_job.job_uid = "other";
  EXPECT_EQ(PostSigned(other_job).status, 409);
  EXPECT_THAT(counters_, IsEmpty());
  const std::string page = Get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("control_messages_total{verdict=\"forged\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("control_messages_total{verdict=\"malformed\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("control_messages_total{verdict=\"stale\"} 2\n"));
}

TEST_F(RuntimeEndpoints, WithoutAKeyNobodyIsLetIn) {
  routes_ = MakeRuntimeRoutes(Options(""));
  EXPECT_EQ(Get("/status", "Bearer ").status, 401);
  EXPECT_EQ(Post(EncodeControlMessage(Gone(1)), "").status, 401);
}

}  // namespace
}  // namespace lockstep::runtime
