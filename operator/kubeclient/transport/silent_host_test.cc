// A host that vanishes without a word: no time-out of ours is near, so the kernel must notice.

#include <cstdio>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::CallResult;
using kube::Fault;
using std::chrono::minutes;

class SilentHost : public TransportTest {
 protected:
  // Long enough to be told from a time-out of ours, short enough to end a test that fails.
  static constexpr Duration kFar = minutes(4);

  static CallOptions Patient() {
    CallOptions call;
    call.first_byte_timeout = kFar;
    call.total_timeout = kFar;
    return call;
  }

  std::future<CallResult> Start(const std::string& method, const std::string& target) {
    auto answer = std::make_shared<std::promise<CallResult>>();
    auto future = answer->get_future();
    transport()->StartCall(RequestFor(method, target), Patient(), [answer](CallResult result) {
      answer->set_value(std::move(result));
    });
    return future;
  }

  // The target is 35 s. The machine may be busy, so only the outcome is asserted.
  static void Print(const char* what, TimePoint since) {
    std::printf("%s noticed after %.1f s\n", what, ToSeconds(SteadyNow() - since));
  }
};

TEST_P(SilentHost, IsNoticedWithoutATimeOutOfOurs) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    if (request.target == "/watch") {
      peer.BeginChunks();
      peer.Chunk("x");
    } else if (request.target == "/pooled" && request.method == "GET") {
      peer.Reply(200, "");
    }
    peer.Vanish();
    peer.AwaitClose();
  });
  // One connection goes silent while it waits in the pool, one in the middle of a call, one in the
  // middle of a quiet watch.
  ASSERT_EQ(Outcome(Start("GET", "/pooled").get()), "200");
  StreamOptions quiet;
  quiet.idle_timeout = kFar;
  const auto sink = std::make_shared<TestSink>();
  transport()->OpenStream(RequestFor("GET", "/watch"), quiet, sink);
  ASSERT_TRUE(sink->AwaitBytes(1));
  const TimePoint before = SteadyNow();
  auto on_pooled = Start("POST", "/pooled");
  auto in_flight = Start("GET", "/call");
  ASSERT_TRUE(sink->AwaitEnd(kFar));
  Print("a quiet watch's host", before);
  EXPECT_EQ(sink->fault().value().kind, kube::FaultKind::kTimeout) << sink->fault()->message;
  for (auto* call : {&in_flight, &on_pooled}) {
    const CallResult result = call->get();
    Print("a call's host", before);
    ASSERT_EQ(Outcome(result), "timeout");
    EXPECT_TRUE(std::get<Fault>(result).request_sent);
    EXPECT_LT(SteadyNow() - before, kFar) << "only our own time-out noticed";
  }
}

LOCKSTEP_FOR_ALL_TRANSPORTS(SilentHost);

}  // namespace
}  // namespace lockstep::control
