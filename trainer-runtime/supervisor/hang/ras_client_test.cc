#include "trainer-runtime/supervisor/hang/ras_client.h"

#include <csignal>
#include <functional>
#include <poll.h>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "trainer-runtime/rendezvous/socket_address.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kTextReport =
    "Communicators... (0.00s)\n\n#0-0 (aa) MISMATCH\n"
    "  Communicator ranks have different collective operation counts\n"
    "  Rank 1 has launched up to operation 6 -- GPU 1 managed by process 7 on node n\n"
    "  Rank 0 has launched up to operation 7 -- GPU 0 managed by process 6 on node n\n";

constexpr const char* kJsonReport =
    R"({"communicators": [{"hash": "aa", "size": 2, "ranks": [)"
    R"({"rank": 0, "host": "n", "pid": 6, "collective_counts": {"AllReduce": 7}},)"
    R"({"rank": 1, "host": "n", "pid": 7, "collective_counts": {"AllReduce": 6}}]}]})";

// A peer that follows a script: for each line that it reads, what it sends.
class ScriptedPeer {
 public:
  // What to do with the `connection`-th connection, from 0; returns when it is to be closed.
  using Script = std::function<void(int connection, int fd)>;

  explicit ScriptedPeer(Script script) : script_(std::move(script)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      for (int connection = 0; !stop.stop_requested();) {
        pollfd entry{listener_.get(), POLLIN, 0};
        if (::poll(&entry, 1, 10) > 0) {
          UniqueFd accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
          script_(connection++, accepted.get());
          accepted_ = connection;
          kept_.push_back(std::move(accepted));
          ::shutdown(kept_.back().get(), SHUT_WR);
        }
      }
    });
  }

  std::string address() const {
    return "localhost:" + std::to_string(BoundPort(listener_).value());
  }

  int accepted() const { return accepted_; }

 private:
  Script script_;
  std::atomic<int> accepted_ = 0;
  UniqueFd listener_ = ListenOn("127.0.0.1", 0, 8).value();
  std::vector<UniqueFd> kept_;
  std::jthread thread_;
};

std::string ReadLineFrom(int fd) {
  std::string line;
  char letter = 0;
  while (line.size() < 200 && ::recv(fd, &letter, 1, 0) == 1 && letter != '\n') {
    line += letter;
  }
  return line;
}

void SayTo(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Answers as NCCL does; `format`: what it says to SET FORMAT.
void AnswerAsNccl(int fd, const std::string& format, std::string_view report) {
  for (std::string line = ReadLineFrom(fd); !line.empty(); line = ReadLineFrom(fd)) {
    if (line.starts_with("CLIENT PROTOCOL")) {
      SayTo(fd, "SERVER PROTOCOL 2\n");
    } else if (line.starts_with("TIMEOUT")) {
      SayTo(fd, "OK\n");
    } else if (line.starts_with("SET FORMAT")) {
      SayTo(fd, format);
      if (format.empty()) {
        return;
      }
    } else if (line == "VERBOSE STATUS") {
      return SayTo(fd, report);
    }
  }
}

Deadline RasDeadline() {
  return Deadline::After(SteadyNow(), std::chrono::seconds(20));
}

std::string SentenceOf(const Result<RasReport>& report) {
  return report.ok() ? JudgeHang(EvidenceOf(*report, 2)).sentence : report.error().ToString();
}

constexpr const char* kOfJson =
    "rank 1 has not called AllReduce #7 of communicator aa, in which 1 rank waits";
constexpr const char* kOfText =
    "rank 1 has not called collective #7 of communicator aa, in which 1 rank waits";

TEST(RasClient, Nccl224AnswersAsText) {
  const ScriptedPeer peer([](int, int fd) {
    AnswerAsNccl(fd, "ERROR: Unknown command SET FORMAT json\n", kTextReport);
  });
  EXPECT_EQ(SentenceOf(AskRas(peer.address(), RasDeadline())), kOfText);
  EXPECT_EQ(peer.accepted(), 1);
}

TEST(RasClient, Nccl228And229AnswerInJson) {
  const ScriptedPeer peer([](int, int fd) { AnswerAsNccl(fd, "OK\n", kJsonReport); });
  EXPECT_EQ(SentenceOf(AskRas(peer.address(), RasDeadline())), kOfJson);
}

TEST(RasClient, APeerThatClosesForAnUnknownCommandIsAskedForText) {
  const ScriptedPeer peer([](int, int fd) { AnswerAsNccl(fd, "", kTextReport); });
  EXPECT_EQ(SentenceOf(AskRas(peer.address(), RasDeadline())), kOfText);
  EXPECT_EQ(peer.accepted(), 2);
}

// The kernel hands a connection to any process of the pod: here first to one that is stopped.
TEST(RasClient, APeerThatIsStoppedIsAskedAgain) {
  const ScriptedPeer peer([](int connection, int fd) {
    if (connection == 0) {
      return (void)ReadLineFrom(fd), (void)::poll(nullptr, 0, 1500);
    }
    AnswerAsNccl(fd, "OK\n", kJsonReport);
  });
  EXPECT_EQ(SentenceOf(AskRas(peer.address(), RasDeadline())), kOfJson);
}

TEST(RasClient, LinesThatComeInHalvesArePutTogether) {
  const ScriptedPeer peer([](int, int fd) {
    ReadLineFrom(fd);
    SayTo(fd, "SERVER PRO");
    ::poll(nullptr, 0, 50);
    SayTo(fd, "TOCOL 2\nO");
    ReadLineFrom(fd);
    ::poll(nullptr, 0, 50);
    SayTo(fd, "K\n");
    ReadLineFrom(fd);
    SayTo(fd, "OK\n");
    ReadLineFrom(fd);
    const std::string_view json = kJsonReport;
    SayTo(fd, json.substr(0, 40));
    ::poll(nullptr, 0, 50);
    SayTo(fd, json.substr(40));
  });
  EXPECT_EQ(SentenceOf(AskRas(peer.address(), RasDeadline())), kOfJson);
}

TEST(RasClient, WhatIsNoReportIsAnErrorInTime) {
  for (const std::string_view report : {"", "garbage", "{", "[]"}) {
    const ScriptedPeer peer([report](int, int fd) { AnswerAsNccl(fd, "OK\n", report); });
    EXPECT_FALSE(
        AskRas(peer.address(), Deadline::After(SteadyNow(), std::chrono::milliseconds(300))).ok())
        << report;
  }
}

TEST(RasClient, EndlessBytesAreCutOff) {
  const ScriptedPeer line([](int, int fd) { SayTo(fd, std::string(100'000, 'x')); });
  EXPECT_EQ(AskRas(line.address(), RasDeadline()).error().code(), ErrorCode::kResourceExhausted);
  const ScriptedPeer report(
      [](int, int fd) { AnswerAsNccl(fd, "OK\n", std::string(40'000'000, 'x')); });
  EXPECT_EQ(AskRas(report.address(), RasDeadline()).error().code(), ErrorCode::kResourceExhausted);
}

TEST(RasClient, NobodyIsThere) {
  std::string address;
  {
    const ScriptedPeer peer([](int, int) {});
    address = peer.address();
  }
  EXPECT_EQ(AskRas(address, RasDeadline()).error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(AskRas("no address", RasDeadline()).ok());
}

TEST(RasPort, IsTheJobsOwnAndNoneThatOthersUse) {
  EXPECT_EQ(RasPort("uid-1"), RasPort("uid-1"));
  EXPECT_NE(RasPort("uid-1"), RasPort("uid-2"));
  for (const char* uid : {"", "a", "9d5c1c0e-0b0e-4c6f-8a55-2f6b8f1f2c11"}) {
    EXPECT_GE(RasPort(uid), 26000);
    EXPECT_LT(RasPort(uid), 29000);
  }
}

}  // namespace
}  // namespace lockstep::runtime
