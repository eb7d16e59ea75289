#include "operator/pod_client/status_poller.h"

#include <future>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "common/contract/control_message.h"
#include "common/http/http_server.h"

namespace lockstep::control {
namespace {

constexpr const char* kGroup = "default/mnist";
constexpr const char* kPod = "mnist-worker-0";
constexpr auto kPatience = std::chrono::seconds(20);

class StatusPollerTest : public testing::Test {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    options.bind_address = "127.0.0.1";
    options.logger = logger_.get();
    auto server = HttpServer::Start(
        options, {{"/status", {{"GET", [this](const HttpServerRequest& request) {
                                  header_ = std::string(request.Header("authorization"));
                                  return HttpServerResponse{401, "text/plain", ""};
                                }}}}});
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
    SetKey("key");
  }

  void SetKey(const std::string& key) {
    StatusTarget target{"127.0.0.1", key, std::chrono::seconds(1)};
    target.port = server_->port();
    poller_.SetTargets(kGroup, {{kPod, target}}, clock_.Now());
  }

  // The header of the question that is asked after this time.
  std::string AskAfter(std::chrono::seconds pause) {
    clock_.Advance(pause);
    answered_ = {};
    poller_.Process(clock_.Now());
    auto answer = answered_.get_future();
    if (answer.wait_for(kPatience) != std::future_status::ready) {
      return "nobody was asked";
    }
    poller_.Accept(answer.get());
    return header_;
  }

  bool Opens(const std::string& header, const std::string& key = "key") const {
    return IsStatusAuthorized(key, kPod, header, clock_.WallNow());
  }

  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  ManualClock clock_;
  std::string header_;  // of the last question; read after its answer
  std::promise<StatusAnswer> answered_;
  std::unique_ptr<HttpServer> server_;
  HttpClient client_{1024};
  StatusPoller poller_{{.clock = &clock_}, &client_, [this](StatusAnswer answer) {
                         answered_.set_value(std::move(answer));
                       }};
};

TEST_F(StatusPollerTest, TokenOpensWheneverItIsUsedAgain) {
  std::set<std::string> seen;
  for (int i = 0; i < 12; ++i) {
    const std::string header = AskAfter(std::chrono::seconds(10));
    EXPECT_TRUE(Opens(header)) << header;
    seen.insert(header);
  }
  EXPECT_EQ(seen.size(), 4U) << "in two minutes: half of a life each";
}

TEST_F(StatusPollerTest, AnotherKeyMakesAnotherToken) {
  EXPECT_TRUE(Opens(AskAfter(std::chrono::seconds(1))));
  SetKey("other");
  EXPECT_TRUE(Opens(AskAfter(std::chrono::seconds(1)), "other"));
}

}  // namespace
}  // namespace lockstep::control
