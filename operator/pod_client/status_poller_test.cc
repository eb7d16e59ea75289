#include "operator/pod_client/status_poller.h"

#include <algorithm>
#include <array>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "common/contract/control_message.h"

namespace lockstep::control {
namespace {

constexpr const char* kGroup = "default/mnist";
constexpr const char* kPod = "mnist-worker-0";
constexpr auto kPatience = std::chrono::seconds(20);

// Answers every question with 401, one after the other, and remembers what it was shown.
class Refusing {
 public:
  Refusing() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    LOCKSTEP_CHECK(
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0 &&
            ::listen(listener_.get(), 1) == 0 &&
            ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0,
        "no server");
    port_ = ntohs(where.sin_port);
    thread_ = std::jthread([this] { Serve(); });
  }

  ~Refusing() { ::shutdown(listener_.get(), SHUT_RDWR); }  // wakes accept

  int port() const { return port_; }

  // Of the last question; read after its answer.
  const std::string& header() const { return header_; }

 private:
  void Serve() {
    for (;;) {
      const UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
      if (connection.get() < 0) {
        return;
      }
      std::string request;
      std::array<char, 4096> buffer{};
      ssize_t got = 1;
      while (got > 0 && request.find("\r\n\r\n") == std::string::npos) {
        got = ::read(connection.get(), buffer.data(), buffer.size());
        request.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      }
      const std::size_t name = request.find("Authorization: ");
      header_ = name == std::string::npos
                    ? ""
                    : request.substr(name + 15, request.find('\r', name) - name - 15);
      [[maybe_unused]] const Status sent =
          WriteAll(connection.get(), "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    }
  }

  UniqueFd listener_;
  int port_ = 0;
  std::string header_;
  std::jthread thread_;
};

// Stands still until told.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }

  WallTime WallNow() const override {
    return WallTime(std::chrono::duration_cast<WallTime::duration>(now_.time_since_epoch()));
  }

  void Advance(Duration step) { now_ += step; }

 private:
  TimePoint now_{std::chrono::seconds(1000)};
};

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
    if (answer.wait_for(kPatience) != std::future_status::ready) {
      return "nobody was asked";
    }
    poller_.Accept(answer.get());
    return server_.header();
  }

  bool Opens(const std::string& header, const std::string& key = "key") const {
    return JudgeStatusToken(key, kPod, header, clock_.WallNow()) == TokenVerdict::kTaken;
  }

  ManualClock clock_;
  std::promise<StatusAnswer> answered_;
  Refusing server_;
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
