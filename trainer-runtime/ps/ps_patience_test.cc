// How often the same is asked and answered while large messages travel, and who stops calling.

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trainer-runtime/ps/shard_frames.h"
#include "trainer-runtime/ps/testing/ps_gang.h"
#include "trainer-runtime/rendezvous/host_id.h"
#include "trainer-runtime/rendezvous/reception.h"

namespace lockstep::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Within;

// Far above what the buffers of a connection on loopback hold.
constexpr int64_t kLargeCount = 8'000'000;

// Takes callers at one address, and keeps each.
class Listener {
 public:
  Listener(UniqueFd listener, const MeshIdentity& self)
      : reception_({std::move(listener), Hello{self, ReadHostId()}, "key", 64, logger_.get()}) {}

  // The next caller, accepted and by itself; nullopt after 10 s.
  std::optional<Visitor> Next() {
    const Deadline deadline = Deadline::After(SteadyNow(), seconds(10));
    while (!deadline.HasPassed(SteadyNow())) {
      PollSet poll;
      reception_.Watch(&poll, SteadyNow());
      poll.Wait(SteadyNow(), std::min(deadline.when(), reception_.NextTimeout()));
      for (Visitor& visitor : reception_.Advance(poll, SteadyNow())) {
        waiting_.push_back(std::move(visitor));
      }
      if (!waiting_.empty()) {
        Visitor first = std::move(waiting_.front());
        waiting_.erase(waiting_.begin());
        return first;
      }
    }
    return std::nullopt;
  }

 private:
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  Reception reception_;
  std::vector<Visitor> waiting_;
};

MeshIdentity PsIdentity(int ps, int world_size) {
  return {"uid", Attempt(), PsPlace(world_size, ps), world_size, Incarnation()};
}

// A ps that answers one pull, in pieces with pauses between them, and counts what is asked. The
// first ones it refuses, as one that does not serve.
class SlowPs {
 public:
  explicit SlowPs(int refusals = 0) : refusals_(refusals), thread_([this] { Serve(); }) {}

  ~SlowPs() { thread_.join(); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // After the worker has its answer.
  int pulls() const { return pulls_; }

 private:
  static constexpr int kPieces = 60;
  static constexpr Duration kPause = milliseconds(25);

  void Serve() {
    Listener listener(std::move(listening_), PsIdentity(0, 1));
    std::optional<Visitor> visitor = listener.Next();
    ASSERT_TRUE(visitor.has_value());
    ASSERT_TRUE(
        visitor->socket.Write(EncodeFrame(VerdictFrame{true, Refusal::kBusy, Epoch(), ""})).ok());
    const UniqueFd fd = std::move(visitor->socket).Release();
    MessageSocket asked(UniqueFd(::dup(fd.get())));
    std::string answer;
    std::size_t sent = 0;
    while (answer.empty() || sent < answer.size()) {
      PollSet poll;
      poll.Watch(fd.get());
      poll.Wait(SteadyNow(), SteadyNow() + kPause);
      std::size_t budget = kBytesARound;
      while (const std::optional<std::string> message = asked.Read(&budget).value()) {
        if (++pulls_ <= refusals_) {
          ASSERT_TRUE(asked.Write(NotServing(*message)).ok());
        } else {
          answer = answer.empty() ? Answer(*message) : answer;
        }
      }
      const std::size_t piece = std::min(answer.size() - sent, answer.size() / kPieces + 1);
      ASSERT_EQ(::send(fd.get(), answer.data() + sent, piece, MSG_NOSIGNAL),
                static_cast<ssize_t>(piece));
      sent += piece;
    }
  }

  static std::string Answer(const std::string& bytes) {
    const WorkerRequest request = std::get<WorkerRequest>(DecodeShardFrame(bytes).value().message);
    const auto values = std::make_shared<const std::vector<float>>(std::vector<float>(1000, 1));
    const std::string body =
        EncodeShardFrame({0,
                          WorkerReply{request.view,
                                      request.process,
                                      request.number,
                                      reply::Pulled{0, values, nullptr, 0, kGateOpen, nullptr}}});
    const uint64_t size = body.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + body;
  }

  static std::string NotServing(const std::string& bytes) {
    const WorkerRequest request = std::get<WorkerRequest>(DecodeShardFrame(bytes).value().message);
    return EncodeShardFrame(
        {0, WorkerReply{request.view, request.process, request.number, reply::NotServing{}}});
  }

  int refusals_;
  UniqueFd listening_ = ListenOn("127.0.0.1", 0, 16).value();
  int port_ = BoundPort(listening_).value();
  std::atomic<int> pulls_ = 0;
  std::thread thread_;  // last
};

// As while a ps is being replaced: the copy that is left has not heard yet that it serves.
TEST(PsPatience, CopyThatDoesNotServeYetIsAskedAgainSoon) {
  SlowPs ps(/*refusals=*/3);
  const std::unique_ptr<Logger> logger = MakeNullLogger();
  PsClientOptions options;
  options.identity = {"uid", Attempt(), 0, 1, Incarnation()};
  options.addresses = {ps.address()};
  options.job_key = "key";
  options.element_counts = {1000};
  options.ask_again = std::chrono::hours(1);
  options.logger = logger.get();
  const std::unique_ptr<PsClient> worker = PsClient::Make(std::move(options)).value();

  std::vector<float> parameters(1000);
  const Result<PulledCounts> pulled = worker->Pull(parameters, {}, {}, Within(seconds(60)));

  EXPECT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(ps.pulls(), 4);
}

TEST(PsPatience, WorkerDoesNotAskAgainWhileItsAnswerIsOnItsWay) {
  SlowPs ps;
  const std::unique_ptr<Logger> logger = MakeNullLogger();
  PsClientOptions options;
  options.identity = {"uid", Attempt(), 0, 1, Incarnation()};
  options.addresses = {ps.address()};
  options.job_key = "key";
  options.element_counts = {1000};
  options.ask_again = milliseconds(500);  // the answer takes three times as long
  options.logger = logger.get();
  const std::unique_ptr<PsClient> worker = PsClient::Make(std::move(options)).value();

  std::vector<float> parameters(1000);
  const Result<PulledCounts> pulled = worker->Pull(parameters, {}, {}, Within(seconds(60)));

  ASSERT_TRUE(pulled.ok()) << pulled.error().ToString();
  EXPECT_EQ(ps.pulls(), 1);
}

// A worker by hand: reads only when it is told to.
class SlowReader {
 public:
  explicit SlowReader(const testing::PsGang& gang)
      : caller_({{"uid", Attempt(), 0, 1, Incarnation()},
                 {ParseHostPort(gang.addresses()[0]).value()},
                 "key"}) {
    EXPECT_TRUE(caller_.Open().ok());
    caller_.Want(0, SteadyNow());
    EXPECT_EQ(Next().kind, CallerNews::Kind::kUp);
  }

  void Ask(int64_t number, decltype(WorkerRequest::body) body) {
    WorkerRequest request;
    request.process = {0, Incarnation()};
    request.number = number;
    request.sequence = std::holds_alternative<request::Push>(body) ? 1 : 0;
    request.body = std::move(body);
    caller_.Send(0, EncodeShardFrame({0, request}));
  }

  // Until there is something to be read, which stays unread.
  void AwaitAnswer() {
    PollSet poll;
    caller_.Watch(&poll);
    poll.Wait(SteadyNow(), SteadyNow() + seconds(10));
  }

  CallerNews Next() {
    const Deadline deadline = Deadline::After(SteadyNow(), seconds(20));
    while (news_.empty() && !deadline.HasPassed(SteadyNow())) {
      PollSet poll;
      caller_.Watch(&poll);
      poll.Wait(SteadyNow(), std::min(deadline.when(), caller_.NextTimeout()));
      news_ = caller_.Advance(poll, SteadyNow());
    }
    EXPECT_FALSE(news_.empty()) << "nothing happened";
    if (news_.empty()) {
      return {};
    }
    CallerNews first = std::move(news_.front());
    news_.erase(news_.begin());
    return first;
  }

  // What the next message answers.
  std::size_t NextAnswer() {
    const Result<ShardFrame> frame = DecodeShardFrame(Next().text);
    EXPECT_TRUE(frame.ok());
    return frame.ok() ? std::get<WorkerReply>(frame->message).body.index() : 0;
  }

 private:
  PsCaller caller_;
  std::vector<CallerNews> news_;
};

TEST(PsPatience, PullIsNotAnsweredTwiceWhileItsAnswerIsUnsent) {
  testing::PsGangOptions options;
  options.element_counts = {kLargeCount};
  options.piece_bytes_min = kLargeCount * 8;  // in one shard
  options.rule = [](int64_t, std::span<const float>, std::vector<float>*, std::vector<float>*) {};
  testing::PsGang gang(options);
  const std::vector<float> zeros(kLargeCount, 0);
  const std::unique_ptr<PsClient> seeding = gang.Worker(0);
  ASSERT_TRUE(seeding->Seed(zeros, {}, {}, Within(seconds(60))).ok());
  SlowReader worker(gang);

  worker.Ask(1, request::Pull{});
  worker.AwaitAnswer();
  worker.Ask(1, request::Pull{});
  const auto wrong = std::make_shared<const std::vector<float>>(std::vector<float>(1));
  worker.Ask(2, request::Push{wrong, {}});  // answered at once, and behind what was asked before

  EXPECT_EQ(worker.NextAnswer(), decltype(WorkerReply::body)(reply::Pulled{}).index());
  EXPECT_EQ(worker.NextAnswer(), decltype(WorkerReply::body)(reply::Misfit{}).index());
}

// Ps 1 is told that it has a successor, then ps 0 dies: only ps 2 calls at its address.
TEST(PsPatience, PsThatHasASuccessorCallsNobody) {
  constexpr int kCalls = 5;
  testing::PsGangOptions options;
  options.element_counts = {6};
  options.rule = [](int64_t, std::span<const float>, std::vector<float>*, std::vector<float>*) {};
  testing::PsGang gang(options);
  ASSERT_TRUE(gang.AwaitWhole());
  gang.TellOfItsSuccessor(1);
  gang.Kill(0);
  const int port = ParseHostPort(gang.addresses()[0]).value().port;
  Listener listener(ListenOn("127.0.0.1", port, 16).value(), PsIdentity(0, 1));

  std::multiset<int> places;
  while (places.count(PsPlace(1, 2)) < kCalls) {
    std::optional<Visitor> visitor = listener.Next();  // and its connection ends: it calls again
    ASSERT_TRUE(visitor.has_value());
    places.insert(visitor->hello.hello.identity.rank);
  }

  EXPECT_EQ(places.count(PsPlace(1, 1)), 0U);
}

}  // namespace
}  // namespace lockstep::runtime
