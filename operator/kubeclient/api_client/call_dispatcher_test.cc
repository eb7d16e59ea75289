// Whose turn it is, and for how long: over a transport that does nothing until the test says so.

#include "operator/kubeclient/api_client/call_dispatcher.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/testing/fake_clock.h"

namespace lockstep::control {
namespace {

using kube::CallResult;
using kube::Fault;
using kube::FaultKind;
using kube::Reply;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeTransport final : public Transport {
 public:
  struct Call {
    kube::Request request;
    CallOptions options;
    Done done;
  };

  explicit FakeTransport(FakeClock* clock) : clock_(clock) {}

  void StartCall(kube::Request request, const CallOptions& options, Done done) override {
    log += request.target.substr(0, request.target.find('?')) + " ";
    open.push_back({std::move(request), options, std::move(done)});
  }

  StreamId OpenStream(kube::Request, const StreamOptions&, std::shared_ptr<StreamSink>) override {
    return {};
  }

  void Resume(StreamId) override {}

  void Cancel(StreamId) override {}

  void RunAfter(Duration delay, std::function<void()> task) override {
    tasks_.emplace_back(clock_->now + delay, std::move(task));
  }

  // Time passes, and what is due runs.
  void Pass(Duration time) {
    clock_->now += time;
    for (bool has_run = true; std::exchange(has_run, false);) {
      for (auto& [when, task] : std::exchange(tasks_, {})) {
        if (when <= clock_->now) {
          task();
          has_run = true;
        } else {
          tasks_.emplace_back(when, std::move(task));
        }
      }
    }
  }

  void Answer(const std::string& path, CallResult result) {
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i].request.target.substr(0, open[i].request.target.find('?')) == path) {
        const Done done = std::move(open[i].done);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
        done(std::move(result));
        Pass({});
        return;
      }
    }
    ADD_FAILURE() << path << " is not under way";
  }

  std::deque<Call> open;
  std::string log;  // what was sent

 private:
  FakeClock* clock_;
  std::deque<std::pair<TimePoint, std::function<void()>>> tasks_;
};

class CallDispatcherTest : public testing::Test {
 protected:
  CallDispatcherTest() {
    options_.transport = &transport_;
    options_.credentials = &credentials_;
    options_.clock = &clock_;
    options_.parallel_max = 2;
  }

  // Calls of one lane: each path is of one write.
  void Start(const std::string& lane, const std::vector<std::string>& paths) {
    if (dispatcher_ == nullptr) {
      dispatcher_ = std::make_shared<CallDispatcher>(options_);
    }
    std::vector<kube::Request> requests;
    for (const std::string& path : paths) {
      kube::Request request;
      request.method = "POST";
      request.target = path;
      request.may_outlast_lease = path.find("fenced") == std::string::npos;
      requests.push_back(std::move(request));
    }
    dispatcher_->Start(lane, std::move(requests), [this, lane](std::vector<CallResult> results) {
      answers_ += lane + ":" + std::to_string(results.size()) + " ";
      last_ = std::move(results);
    });
    transport_.Pass({});
  }

  static CallResult Ok() { return Reply{200, "", {}}; }

  FakeClock clock_;
  FakeTransport transport_{&clock_};
  FixedCredentials credentials_{CredentialSnapshot{}};
  CallDispatcherOptions options_;
  std::shared_ptr<CallDispatcher> dispatcher_;
  std::string answers_;
  std::vector<CallResult> last_;
};

TEST_F(CallDispatcherTest, LanesTakeTurnsOfEightCalls) {
  options_.parallel_max = 1;
  Start("large", {"/a1", "/a2", "/a3", "/a4", "/a5", "/a6", "/a7", "/a8", "/a9"});
  Start("small", {"/b1", "/b2"});
  Start("other", {"/c1", "/c2"});
  while (!transport_.open.empty()) {
    transport_.Answer(transport_.open.front().request.target.substr(0, 3), Ok());
  }
  EXPECT_EQ(transport_.log, "/a1 /a2 /a3 /a4 /a5 /a6 /a7 /a8 /b1 /b2 /c1 /c2 /a9 ")
      << "a small gang's pods come together, and nobody waits for the whole of a large one";
}

TEST_F(CallDispatcherTest, LaneThatHasAllItMayHaveGivesUpItsTurn) {
  Start("a", {"/a1", "/a2", "/a3"});
  transport_.Pass(seconds(1));  // two are slow, and more one lane does not get
  transport_.log.clear();
  Start("b", {"/b1", "/b2"});
  EXPECT_EQ(transport_.log, "/b1 /b2 ");
}

TEST_F(CallDispatcherTest, SlowCallsGiveTheirPlaceToOthers) {
  Start("a", {"/a1", "/a2", "/a3", "/a4"});
  Start("b", {"/b1"});
  transport_.Pass(milliseconds(900));
  EXPECT_EQ(transport_.log, "/a1 /a2 ");
  transport_.Pass(milliseconds(100));
  EXPECT_EQ(transport_.log, "/a1 /a2 /b1 ") << "one lane never has all that may be open";
  transport_.Answer("/b1", Ok());
  EXPECT_EQ(answers_, "b:1 ");
}

TEST_F(CallDispatcherTest, CallThatIsPutOffHoldsUpNoOther) {
  options_.parallel_max = 1;
  Start("a", {"/a1"});
  Start("b", {"/b1"});
  transport_.Answer("/a1", Reply{429, "", seconds(5)});
  EXPECT_EQ(transport_.log, "/a1 /b1 ");
  transport_.Answer("/b1", Ok());
  EXPECT_EQ(answers_, "b:1 ");
  transport_.Pass(seconds(5));
  transport_.Answer("/a1", Ok());
  EXPECT_EQ(answers_, "b:1 a:1 ");
}

TEST_F(CallDispatcherTest, WriteOutlivesAWebhookOfThirtySecondsAndTheServerEndsItFirst) {
  options_.leads_until = [this] { return clock_.now + seconds(8); };
  Start("a", {"/pods", "/fenced"});
  ASSERT_EQ(transport_.open.size(), 2U);
  EXPECT_EQ(transport_.open[0].options.total_timeout, seconds(40));
  EXPECT_EQ(transport_.open[0].options.first_byte_timeout, seconds(40));
  EXPECT_EQ(transport_.open[0].request.target, "/pods?timeout=35s");
  EXPECT_EQ(transport_.open[1].options.total_timeout, seconds(8)) << "over before another leads";
  EXPECT_EQ(transport_.open[1].request.target, "/fenced?timeout=6s");
}

TEST_F(CallDispatcherTest, NobodyWritesWhoDoesNotLeadLongEnough) {
  options_.leads_until = [this] { return clock_.now + seconds(5); };
  Start("a", {"/pods", "/fenced"});
  EXPECT_EQ(transport_.log, "");
  for (const CallResult& result : last_) {
    EXPECT_EQ(std::get<Fault>(result).kind, FaultKind::kNotLeader);
  }
  EXPECT_EQ(last_.size(), 2U);
}

TEST_F(CallDispatcherTest, WriteThatMayHaveHappenedSaysSoWhateverStopsItsRetry) {
  TimePoint leads_until = clock_.now + seconds(10);
  options_.leads_until = [&leads_until] { return leads_until; };
  Start("a", {"/pods"});
  transport_.Answer("/pods", Reply{500, "", seconds(6)});
  transport_.Pass(seconds(6));

  ASSERT_EQ(last_.size(), 1U);
  EXPECT_EQ(std::get<Fault>(last_.front()).kind, FaultKind::kNotLeader);
  EXPECT_TRUE(std::get<Fault>(last_.front()).request_sent) << "the first time";
}

// Sent again, a write that was carried out would be answered with a conflict, by itself.
TEST_F(CallDispatcherTest, WriteWithAVersionIsSentAgainOnlyAfterItWasNotCarriedOut) {
  dispatcher_ = std::make_shared<CallDispatcher>(options_);
  const auto request = kube::Update(kube::kTrainingJobs, "n", "j", "{}", "status");
  dispatcher_->Start(
      "a", {request}, [this](std::vector<CallResult> results) { last_ = std::move(results); });
  transport_.Pass({});
  transport_.Answer(request.target, Reply{429, "", seconds(1)});
  transport_.Pass(seconds(1));
  transport_.Answer(request.target, Reply{500, "", seconds(1)});

  ASSERT_EQ(last_.size(), 1U);
  EXPECT_EQ(std::get<Reply>(last_.front()).status, 500);
}

TEST_F(CallDispatcherTest, SomeOfTheOpenCallsAreKeptForLanesThatHaveNone) {
  for (const std::string lane : {"a", "b", "c"}) {
    Start(lane, {"/" + lane + "1", "/" + lane + "2"});
    transport_.Pass(seconds(1));  // they are slow
  }
  Start("d", {"/d1", "/d2"});
  transport_.Pass(seconds(1));
  transport_.log.clear();
  Start("e", {"/e1"});
  EXPECT_EQ(transport_.log, "/e1 ") << "of 8, the last two have not gone to one";
}

TEST_F(CallDispatcherTest, CallThatWasSentAgainKeepsNoSlowOneInItsPlace) {
  Start("a", {"/a1"});
  Start("b", {"/b1"});
  transport_.Pass(milliseconds(900));
  transport_.Answer("/a1", Reply{429, "", seconds(0)});  // sent again at once
  Start("c", {"/c1"});
  transport_.log.clear();
  transport_.Pass(milliseconds(100));
  EXPECT_EQ(transport_.log, "/c1 ") << "b1 has become slow";
}

TEST_F(CallDispatcherTest, CallWhoseTurnDoesNotComeInTimeIsNotSent) {
  options_.parallel_max = 1;
  Start("a", {"/a1", "/a2"});
  transport_.Pass(seconds(61));
  transport_.Answer("/a1", Ok());
  EXPECT_EQ(answers_, "a:2 ");
  EXPECT_FALSE(std::get<Fault>(last_.at(1)).request_sent);
}

TEST_F(CallDispatcherTest, AbandonedCallsNeitherAnswerNorGoOut) {
  options_.parallel_max = 1;
  Start("a", {"/a1", "/a2"});
  dispatcher_->Abandon();
  transport_.Pass({});
  transport_.Answer("/a1", Ok());
  EXPECT_EQ(answers_, "");
  EXPECT_EQ(transport_.log, "/a1 ");

  Start("b", {"/b1"});
  transport_.Answer("/b1", Ok());
  EXPECT_EQ(answers_, "b:1 ") << "what comes afterwards has the places";
}

}  // namespace
}  // namespace lockstep::control
