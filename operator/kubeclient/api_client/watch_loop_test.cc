// WatchLoop and UpdateQueue: streams that follow each other for ever, over every transport.

#include <atomic>
#include <deque>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "operator/kubeclient/api_client/reflector_driver.h"
#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// Watches "/0", "/1", ... and puts lines that say what happened into a queue.
class ScriptedMachine final : public WatchMachine {
 public:
  explicit ScriptedMachine(UpdateQueue<std::string>* queue) : queue_(queue) {}

  // How long to wait before each request. Before the loop is made.
  void SetPause(Duration pause) { pause_ = pause; }

  Next NextRequest(TimePoint now) override {
    Next next;
    next.not_before = now + pause_;
    next.request = RequestFor("GET", "/" + std::to_string(number_++));
    next.request.verb = kube::Verb::kWatch;
    queue_->Push("next");
    return next;
  }

  void OnStatus(int http_status) override { queue_->Push("status " + std::to_string(http_status)); }

  StreamFlow OnBytes(std::string_view bytes) override {
    return queue_->Push(std::vector{std::string(bytes)}, resume_) ? StreamFlow::kMore
                                                                  : StreamFlow::kPause;
  }

  void OnEnd(const std::optional<kube::Fault>& fault, TimePoint) override {
    queue_->Push(fault ? "end " + std::string(kube::FaultKindName(fault->kind)) : "end");
  }

  std::string LastFailure() const override { return ""; }

  void SetResume(std::function<void()> resume) override { resume_ = std::move(resume); }

 private:
  UpdateQueue<std::string>* const queue_;
  Duration pause_{};
  int number_ = 0;
  std::function<void()> resume_;
};

class WatchLoopTest : public TransportTest {
 protected:
  static constexpr std::size_t kCapacity = 8;

  WatchLoopTest() : machine_(std::make_shared<ScriptedMachine>(&queue_)) {}

  void Begin() {
    WatchLoopOptions loop;
    loop.transport = transport();
    loop.clock = &clock_;
    loop.logger = logger_.get();
    loop_ = std::make_unique<WatchLoop>(loop, machine_);
  }

  // The next message.
  std::string Take() {
    const Deadline deadline = Deadline::After(clock_.Now(), kPatience);
    while (taken_.empty() && !deadline.HasPassed(clock_.Now())) {
      for (std::string& message : queue_.TakeAll(deadline)) {
        taken_.push_back(std::move(message));
      }
    }
    if (taken_.empty()) {
      return "nothing";
    }
    std::string first = std::move(taken_.front());
    taken_.pop_front();
    return first;
  }

  SystemClock clock_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  UpdateQueue<std::string> queue_{kCapacity};
  std::shared_ptr<ScriptedMachine> machine_;
  std::unique_ptr<WatchLoop> loop_;
  std::deque<std::string> taken_;
};

TEST_P(WatchLoopTest, OneStreamFollowsTheOther) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    peer.BeginChunks();
    peer.Chunk("from " + request.target);
    if (request.target == "/0") {
      peer.EndChunks();
    } else if (request.target == "/1") {
      peer.Close();
    } else {
      peer.AwaitClose();
    }
  });
  Begin();
  for (const char* expected : {"next",
                               "status 200",
                               "from /0",
                               "end",
                               "next",
                               "status 200",
                               "from /1",
                               "end truncated",
                               "next",
                               "status 200",
                               "from /2"}) {
    EXPECT_EQ(Take(), expected);
  }
  loop_ = nullptr;
}

TEST_P(WatchLoopTest, EndOfAQuietLoopDoesNotWait) {
  std::promise<void> closed;
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    peer.Chunk("x");
    peer.AwaitClose();
    closed.set_value();
  });
  Begin();
  EXPECT_EQ(Take(), "next");
  EXPECT_EQ(Take(), "status 200");
  EXPECT_EQ(Take(), "x");
  const TimePoint before = SteadyNow();
  loop_ = nullptr;
  RecordProperty("stop_ms", std::to_string(ToSeconds(SteadyNow() - before) * 1e3));
  closed.get_future().wait();
  EXPECT_TRUE(queue_.TakeAll(Deadline::At(TimePoint::min())).empty()) << "a word after the end";
}

TEST_P(WatchLoopTest, EndDuringBackOffDoesNotWait) {
  Serve([](const TestRequest&, TestPeer&) {});
  machine_->SetPause(hours(1));
  Begin();
  EXPECT_EQ(Take(), "next");
  loop_ = nullptr;
  CloseTransport();
  EXPECT_EQ(server().connection_count(), 0);
}

TEST_P(WatchLoopTest, RetryAfterPutsTheNextStreamOff) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(429, "", "Retry-After: 3600\r\n"); });
  Begin();
  for (const char* expected : {"next", "status 429", "end", "next"}) {
    EXPECT_EQ(Take(), expected);
  }
  // What the loop runs next comes after anything it would have begun at once.
  std::promise<void> done;
  transport()->RunAfter(Duration::zero(), [&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(Outcome(CallAndWait(transport(), RequestFor("GET", "/call"))), "429");
  EXPECT_EQ(server().requests().size(), 2U) << "the stream and the call";
  loop_ = nullptr;
}

// Nothing is lost or reordered when the taker is slow, and the server is held back.
TEST_P(WatchLoopTest, FullQueueHoldsBackTheServer) {
  constexpr std::size_t kBytes = 32 * 1024 * 1024;
  std::atomic<std::size_t> sent{0};
  const ServerEnd end(this);
  Serve([&](const TestRequest& request, TestPeer& peer) {
    peer.BeginChunks();
    for (int i = 0; request.target == "/0" && sent < kBytes && peer.is_open(); ++i) {
      peer.Chunk(std::string(16 * 1024, static_cast<char>('a' + i % 26)));
      sent += 16 * 1024;
    }
    peer.EndChunks();
  });
  Begin();
  EXPECT_EQ(Take(), "next");
  EXPECT_EQ(Take(), "status 200");
  const std::string first = Take();
  EXPECT_EQ(first.front(), 'a');
  EXPECT_LT(sent.load(), kBytes) << "the server was never held back";
  std::size_t received = first.size();
  char last = first.back();
  for (std::string bytes = Take(); bytes != "end"; bytes = Take()) {
    const char next = last == 'z' ? 'a' : static_cast<char>(last + 1);
    ASSERT_TRUE(bytes.front() == last || bytes.front() == next);
    received += bytes.size();
    last = bytes.back();
  }
  EXPECT_EQ(received, kBytes);
  loop_ = nullptr;
}

TEST(UpdateQueue, WakeEndsTheWait) {
  UpdateQueue<int> queue(1);
  queue.Wake();
  EXPECT_TRUE(queue.TakeAll(Deadline::At(TimePoint::max())).empty());
}

TEST(UpdateQueue, DeadlineEndsTheWait) {
  UpdateQueue<int> queue(1);
  EXPECT_TRUE(queue.TakeAll(Deadline::At(SteadyNow())).empty());
}

TEST(UpdateQueue, ProducersHearOnceOfRoom) {
  UpdateQueue<int> queue(2);
  int room_count = 0;
  const auto on_room = [&] { ++room_count; };
  EXPECT_TRUE(queue.Push(std::vector{1}, on_room));
  EXPECT_FALSE(queue.Push(std::vector{2, 3}, on_room));
  EXPECT_FALSE(queue.Push(std::vector{4}, on_room));
  queue.Push(5);  // is always taken in
  EXPECT_EQ(room_count, 0);
  EXPECT_EQ(queue.TakeAll(Deadline::At(SteadyNow())), (std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(room_count, 2);
  EXPECT_TRUE(queue.TakeAll(Deadline::At(SteadyNow())).empty());
  EXPECT_EQ(room_count, 2);
}

LOCKSTEP_FOR_ALL_TRANSPORTS(WatchLoopTest);

}  // namespace
}  // namespace lockstep::control
