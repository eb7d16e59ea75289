// The contract of Transport::OpenStream, for every implementation.

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kubeclient/transport/testing/process_memory.h"
#include "operator/kubeclient/transport/testing/transport_test.h"

namespace lockstep::control {
namespace {

using kube::FaultKind;
using std::chrono::milliseconds;

class TransportStream : public TransportTest {
 protected:
  std::shared_ptr<TestSink> Open(const StreamOptions& options = {}, TestSink::Flow flow = nullptr) {
    auto sink = std::make_shared<TestSink>(std::move(flow));
    id_ = transport()->OpenStream(RequestFor("GET", "/watch"), options, sink);
    return sink;
  }

  StreamId id_;
};

TEST_P(TransportStream, BytesArriveWhileTheStreamIsOpen) {
  std::promise<void> may_end;
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    peer.Chunk("first");
    may_end.get_future().wait();
    peer.Chunk("last");
    peer.EndChunks();
  });
  const auto sink = Open();
  EXPECT_TRUE(sink->AwaitBytes(5));
  EXPECT_EQ(sink->bytes(), "first");
  EXPECT_EQ(sink->status(), 200);
  may_end.set_value();
  EXPECT_TRUE(sink->AwaitEnd());
  EXPECT_FALSE(sink->fault());
  EXPECT_EQ(sink->bytes(), "firstlast");
}

TEST_P(TransportStream, RefusalIsAStatusWithABody) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.Reply(410, "gone", "Retry-After: 3\r\n"); });
  const auto sink = Open();
  EXPECT_TRUE(sink->AwaitEnd());
  EXPECT_FALSE(sink->fault());
  EXPECT_EQ(sink->status(), 410);
  EXPECT_EQ(sink->bytes(), "gone");
  EXPECT_EQ(sink->retry_after(), std::chrono::seconds(3));
}

TEST_P(TransportStream, CancelEndsAQuietStreamAtOnce) {
  std::promise<void> closed;
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    peer.Chunk("x");
    peer.AwaitClose();
    closed.set_value();
  });
  const auto sink = Open();
  ASSERT_TRUE(sink->AwaitBytes(1));
  const TimePoint before = SteadyNow();
  transport()->Cancel(id_);
  ASSERT_TRUE(sink->AwaitEnd());
  RecordProperty("cancel_ms", std::to_string(ToSeconds(SteadyNow() - before) * 1e3));
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kCancelled);
  closed.get_future().wait();  // the server sees it too
}

TEST_P(TransportStream, CancelEndsAStreamThatIsNotYetConnected) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.AwaitClose(); });
  const auto sink = Open();
  transport()->Cancel(id_);
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kCancelled);
}

TEST_P(TransportStream, SinkThatSaysStopEndsTheStream) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    while (peer.is_open()) {
      peer.Chunk("event\n");
    }
  });
  const auto sink = Open({}, [](const std::string&) { return StreamFlow::kStop; });
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kCancelled);
}

// How a server can end a stream that should have gone on.
struct Death {
  const char* name;
  void (*die)(TestPeer&);
};

const Death kDeaths[] = {
    {"goodbye without the last chunk", [](TestPeer& peer) { peer.Close(); }},
    {"no TLS goodbye", [](TestPeer& peer) { peer.CloseRudely(); }},
    {"reset", [](TestPeer& peer) { peer.Reset(); }},
    {"half a chunk",
     [](TestPeer& peer) {
       peer.Send("10\r\nhalf a");
       peer.Close();
     }},
    {"not a chunk",
     [](TestPeer& peer) {
       peer.Send("no size\r\n");
       peer.AwaitClose();
     }},
};

TEST_P(TransportStream, StreamThatIsCutIsTruncated) {
  for (const Death& death : kDeaths) {
    SCOPED_TRACE(death.name);
    std::promise<void> was_read;  // a reset takes back what was not
    const ServerEnd end(this);
    Serve([&](const TestRequest&, TestPeer& peer) {
      peer.BeginChunks();
      peer.Chunk("whole\n");
      was_read.get_future().wait();
      death.die(peer);
    });
    CloseTransport();
    const auto sink = Open();
    ASSERT_TRUE(sink->AwaitBytes(6));
    was_read.set_value();
    ASSERT_TRUE(sink->AwaitEnd());
    ASSERT_TRUE(sink->fault());
    EXPECT_EQ(sink->fault()->kind, FaultKind::kTruncated) << sink->fault()->message;
    EXPECT_TRUE(sink->fault()->request_sent);
    EXPECT_EQ(sink->bytes().substr(0, 6), "whole\n");
  }
}

TEST_P(TransportStream, BodyShorterThanItsLengthIsTruncated) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort");
    peer.Close();
  });
  const auto sink = Open();
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kTruncated);
}

TEST_P(TransportStream, SilenceWithinTheStreamTimesOut) {
  Serve([](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    peer.Chunk("x");
    peer.AwaitClose();
  });
  StreamOptions options;
  options.idle_timeout = milliseconds(50);
  const auto sink = Open(options);
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kTimeout);
}

TEST_P(TransportStream, SilenceBeforeTheHeaderTimesOut) {
  Serve([](const TestRequest&, TestPeer& peer) { peer.AwaitClose(); });
  StreamOptions options;
  options.first_byte_timeout = milliseconds(50);
  const auto sink = Open(options);
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(sink->fault().value().kind, FaultKind::kTimeout);
  EXPECT_TRUE(sink->fault()->request_sent);
}

TEST_P(TransportStream, StreamsHaveConnectionsOfTheirOwn) {
  Serve([](const TestRequest& request, TestPeer& peer) {
    if (request.target == "/watch") {
      peer.BeginChunks();
      peer.Chunk("x");
      peer.AwaitClose();
    } else {
      peer.Reply(200, "{}");
    }
  });
  std::vector<std::shared_ptr<TestSink>> sinks;
  for (int i = 0; i < 2 * kConnectionsMax; ++i) {
    sinks.push_back(Open());
  }
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->AwaitBytes(1));
  }
  EXPECT_EQ(Outcome(CallAndWait(transport(), RequestFor("GET", "/"))), "200");
  EXPECT_EQ(server().connection_count(), 2 * kConnectionsMax + 1);
}

// While the sink pauses, bytes must wait at the server and not in our memory.
TEST_P(TransportStream, PausedSinkHoldsBackTheServer) {
  constexpr std::size_t kBytes = 64 * 1024 * 1024;
  std::atomic<std::size_t> sent{0};
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    const std::string chunk(64 * 1024, 'x');
    peer.BeginChunks();
    while (sent < kBytes && peer.is_open()) {
      peer.Chunk(chunk);
      sent += chunk.size();
    }
    peer.EndChunks();
  });
  std::atomic<std::size_t> received{0};
  std::atomic<bool> is_slow{true};
  auto sink = std::make_shared<CountingSink>([&](std::size_t byte_count) {
    received += byte_count;
    return is_slow ? StreamFlow::kPause : StreamFlow::kMore;
  });
  const std::size_t before = ResidentBytes();
  const StreamId id = transport()->OpenStream(RequestFor("GET", "/watch"), {}, sink);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(sink->AwaitPause());
    transport()->Resume(id);
  }
  const std::size_t after = ResidentBytes();
  const std::size_t grown = after - std::min(before, after);
  EXPECT_LT(sent.load(), kBytes / 2) << "the server was never held back";
#ifndef __SANITIZE_ADDRESS__  // it keeps for a while what was freed
  EXPECT_LT(grown, 8U * 1024 * 1024) << "bytes pile up here";
#endif
  RecordProperty("resident_growth_kib", std::to_string(grown / 1024));
  is_slow = false;
  transport()->Resume(id);
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_EQ(received.load(), kBytes);
}

// Many small events cost as little as one large one.
TEST_P(TransportStream, ChunksThatCameTogetherAreHandedOverTogether) {
  if (IsCpprest()) {
    GTEST_SKIP() << "its library hands out one chunk after the other";
  }
  constexpr int kChunks = 100;
  std::promise<void> all_sent;
  const ServerEnd end(this);
  Serve([&](const TestRequest&, TestPeer& peer) {
    peer.BeginChunks();
    for (int i = 0; i < kChunks; ++i) {
      peer.Chunk("event " + std::to_string(100 + i) + "\n");
    }
    peer.EndChunks();
    all_sent.set_value();
    peer.AwaitClose();
  });
  std::atomic<int> portions{0};
  const auto sink = Open({}, [&](const std::string&) {
    return portions++ == 0 ? StreamFlow::kPause : StreamFlow::kMore;
  });
  all_sent.get_future().wait();  // all lies in our kernel, or in the first portion
  ASSERT_TRUE(sink->AwaitBytes(1));
  transport()->Resume(id_);
  ASSERT_TRUE(sink->AwaitEnd());
  EXPECT_FALSE(sink->fault());
  std::string expected;
  for (int i = 0; i < kChunks; ++i) {
    expected += "event " + std::to_string(100 + i) + "\n";
  }
  EXPECT_EQ(sink->bytes(), expected);
  EXPECT_LE(portions, kChunks / 10);
}

LOCKSTEP_FOR_ALL_TRANSPORTS(TransportStream);

}  // namespace
}  // namespace lockstep::control
