#include "operator/pod_client/status_poller.h"

#include <future>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "common/base/testing/fake_clock.h"
#include "common/contract/status/control_message.h"
#include "operator/pod_client/testing/fake_pod_server.h"

namespace lockstep::control {
namespace {

constexpr const char* kGroup = "default/mnist";
constexpr const char* kPod = "mnist-worker-0";

constexpr const char* kRefusal = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

// The credentials of a question.
std::string AuthorizationIn(const std::string& request) {
  const std::string name = "Authorization: ";
  const std::size_t at = request.find(name);
  return at == std::string::npos
             ? ""
             : request.substr(at + name.size(), request.find('\r', at) - at - name.size());
}

class StatusPollerTest : public testing::Test {
 protected:
  void SetUp() override { SetKey("key"); }

  void SetKey(const std::string& key) {
    StatusTarget target{"127.0.0.1", key, std::chrono::seconds(1)};
    target.port = server_.port();
    poller_.SetTargets(kGroup, {{kPod, target}}, clock_.Now());
  }

  // The header of the question that is asked after this time.
  std::string AskAfter(std::chrono::seconds pause) {
    clock_.Advance(pause);
    answered_ = {};
    poller_.Process(clock_.Now());
    auto answer = answered_.get_future();
    if (answer.wait_for(kAnswerPatience) != std::future_status::ready) {
      return "nobody was asked";
    }
    poller_.Accept(answer.get());
    return AuthorizationIn(server_.request());
  }

  // What the poller makes of a question that ended with this error.
  StatusPoller::Finding FindingOn(ErrorCode code) {
    clock_.Advance(std::chrono::seconds(1));
    answered_ = {};
    poller_.Process(clock_.Now());
    answered_.get_future().wait();
    return poller_.Accept({kGroup, kPod, Error(code, "planted"), clock_.Now()});
  }

  bool Opens(const std::string& header, const std::string& key = "key") const {
    return JudgeStatusToken(key, kPod, header, clock_.WallNow()) == TokenVerdict::kTaken;
  }

  FakeClock clock_;
  std::promise<StatusAnswer> answered_;
  FakePodServer server_{kRefusal};
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

TEST_F(StatusPollerTest, OnlyItsHostProvesThatAProcessIsGone) {
  EXPECT_TRUE(FindingOn(ErrorCode::kPeerLost).is_closed);
  EXPECT_FALSE(FindingOn(ErrorCode::kUnavailable).is_closed);
  EXPECT_FALSE(FindingOn(ErrorCode::kTimeout).is_closed);
}

TEST_F(StatusPollerTest, QuestionThatNeverLeftCountsForNothing) {
  EXPECT_EQ(FindingOn(ErrorCode::kTimeout).unanswered, 1);
  EXPECT_EQ(FindingOn(ErrorCode::kUnavailable).unanswered, 1);
  EXPECT_EQ(FindingOn(ErrorCode::kTimeout).unanswered, 2);
  EXPECT_EQ(FindingOn(ErrorCode::kPeerLost).unanswered, 0);
}

// Nobody takes their answers, so that all of their calls stay under way.
TEST(StatusPoller, GroupOfManyPodsThatDoNotAnswerLeavesRoomForOthers) {
  FakeClock clock;
  std::promise<void> asked;
  HttpClient client(1024);
  StatusPoller poller({.clock = &clock}, &client, [&](const StatusAnswer& answer) {
    if (answer.group == "default/small") {
      asked.set_value();
    }
  });
  StatusTarget target{"127.0.0.1", "key", std::chrono::seconds(1)};
  target.port = 1;  // nobody listens
  StatusTargets many;
  for (int i = 0; i < 200; ++i) {
    many["pod-" + std::to_string(i)] = target;
  }
  poller.SetTargets("default/big", many, clock.Now());
  poller.Process(clock.Now());
  EXPECT_FALSE(poller.NextDeadline().has_value()) << "the others wait for answers of their own";

  poller.SetTargets("default/small", {{kPod, target}}, clock.Now());
  poller.Process(clock.Now());
  EXPECT_EQ(asked.get_future().wait_for(kAnswerPatience), std::future_status::ready);

  // The rest of the many are asked as their answers come, and forgotten with their group.
  poller.Accept({"default/big", "pod-0", Error(ErrorCode::kTimeout, "planted"), clock.Now()});
  EXPECT_TRUE(poller.NextDeadline().has_value());
  poller.SetTargets("default/big", {}, clock.Now());
  EXPECT_FALSE(poller.NextDeadline().has_value());
}

}  // namespace
}  // namespace lockstep::control
