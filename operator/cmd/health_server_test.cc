#include "operator/cmd/health_server.h"

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "operator/pod_client/http_client.h"

namespace lockstep::control {
namespace {

class HealthServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HealthServerOptions options;
    options.bind_address = "127.0.0.1";
    options.logger = logger_.get();
    options.metrics = [] { return std::string("lockstep_jobs 3\n"); };
    options.live["loop"] = [] { return OkStatus(); };
    options.ready["listening"] = [] { return OkStatus(); };
    options.ready["synced"] = [this]() -> Status {
      return is_synced_ ? OkStatus() : Status(Error(ErrorCode::kUnavailable, "pods are missing"));
    };
    auto server = HealthServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
  }

  // "200 text".
  std::string Get(const std::string& target) {
    HttpRequest request;
    request.address = "127.0.0.1";
    request.port = static_cast<uint16_t>(server_->port());
    request.target = target;
    const auto response = client_.Call(std::move(request), std::chrono::seconds(60));
    return response.ok() ? std::to_string(response->status) + " " + response->body
                         : response.error().ToString();
  }

  std::atomic<bool> is_synced_{false};
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::unique_ptr<HealthServer> server_;
  HttpClient client_{1024 * 1024};
};

TEST_F(HealthServerTest, MetricsAreServedAsTheyAre) {
  EXPECT_EQ(Get("/metrics"), "200 lockstep_jobs 3\n");
}

TEST_F(HealthServerTest, LiveIsNotReady) {
  EXPECT_EQ(Get("/healthz"), "200 ok");
  EXPECT_EQ(Get("/healthz/loop"), "200 ok");
  EXPECT_EQ(Get("/readyz"),
            "500 [+]listening ok\n[-]synced failed: pods are missing\nreadyz check failed\n");
  is_synced_ = true;
  EXPECT_EQ(Get("/readyz"), "200 ok");
}

TEST_F(HealthServerTest, OneCheckCanBeAskedOrLeftOut) {
  EXPECT_EQ(Get("/readyz/listening"), "200 ok");
  EXPECT_EQ(Get("/readyz/synced").substr(0, 4), "500 ");
  EXPECT_EQ(Get("/readyz/unknown").substr(0, 4), "404 ");
  EXPECT_EQ(Get("/readyz?exclude=synced"), "200 ok");
  EXPECT_EQ(Get("/readyz?verbose&exclude=synced"),
            "200 [+]listening ok\n[+]synced excluded: ok\nreadyz check passed\n");
}

}  // namespace
}  // namespace lockstep::control
