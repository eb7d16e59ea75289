#include "operator/cmd/control_post.h"

#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "operator/pod_client/testing/fake_pod_server.h"

namespace lockstep::control {
namespace {

class CountingLogger final : public Logger {
 public:
  void Log(LogLevel level, std::string_view, LogFields) override {
    warnings += level == LogLevel::kWarn ? 1 : 0;
  }

  int warnings = 0;
};

ControlPostOptions OptionsFor(const FakePodServer& server) {
  ControlPostOptions options;
  options.open_max = 1;
  options.waiting_max = 3;
  options.timeout = kAnswerPatience;
  options.port = server.port();
  return options;
}

// A survivor's host may be gone as well: each connection to it lasts until its time-out.
TEST(ControlPost, MessagesBeyondTheBoundAreDroppedAndThatIsSaidOnce) {
  FakePodServer silent(std::nullopt);
  HttpClient client(1024);
  CountingLogger logger;
  ControlPost post(&client, &logger, OptionsFor(silent));
  for (int i = 0; i < 9; ++i) {
    post.Send("127.0.0.1", "key", {});
  }

  EXPECT_EQ(post.dropped_count(), 5U) << "of nine, one is under way and three wait";
  EXPECT_EQ(logger.warnings, 1);
}

TEST(ControlPost, OneThatWaitsIsSentWhenTheOneBeforeIsOver) {
  FakePodServer server("HTTP/1.1 204 No Content\r\n\r\n");
  HttpClient client(1024);
  CountingLogger logger;
  ControlPost post(&client, &logger, OptionsFor(server));
  for (const char* key : {"first", "second", "third"}) {
    post.Send("127.0.0.1", key, {});
  }

  const std::string last = SignControlBody("third", EncodeControlMessage({}));
  const Deadline deadline = Deadline::After(SteadyNow(), kAnswerPatience);
  while (server.request().find(last) == std::string::npos && !deadline.HasPassed(SteadyNow())) {
    std::this_thread::yield();
  }
  EXPECT_NE(server.request().find(last), std::string::npos) << server.request();
  EXPECT_EQ(post.dropped_count(), 0U);
}

}  // namespace
}  // namespace lockstep::control
