#include "operator/pod_client/http_client.h"

#include <array>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/file.h"
#include "common/base/unique_fd.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kBodyBytesMax = 1024;
constexpr auto kPatience = seconds(20);

// A server for one connection that says what it is told to, byte for byte.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
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
    thread_ = std::jthread([this, text = std::move(answer)] { Serve(text); });
  }

  ~OneAnswer() {
    if (thread_.joinable()) {
      ::shutdown(listener_.get(), SHUT_RDWR);  // wakes accept
    }
  }

  uint16_t port() const { return port_; }

  // What the client sent, once the connection is over.
  std::string TakeRequest() {
    thread_.join();
    return request_;
  }

 private:
  void Serve(const std::string& answer) {
    const UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
    std::array<char, 4096> buffer{};
    while (request_.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::read(connection.get(), buffer.data(), buffer.size());
      if (got <= 0) {
        return;
      }
      request_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    [[maybe_unused]] const Status sent = WriteAll(connection.get(), answer);
    ::shutdown(connection.get(), SHUT_WR);
    while (::read(connection.get(), buffer.data(), buffer.size()) > 0) {
    }
  }

  UniqueFd listener_;
  uint16_t port_ = 0;
  std::string request_;
  std::jthread thread_;
};

HttpRequest RequestTo(uint16_t port) {
  HttpRequest request;
  request.address = "127.0.0.1";
  request.port = port;
  request.target = "/status";
  return request;
}

TEST(HttpClient, AnswerCarriesStatusAndBody) {
  OneAnswer server("HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nhello");
  HttpClient client(kBodyBytesMax);
  const auto response = client.Call(RequestTo(server.port()), kPatience);
  ASSERT_TRUE(response.ok()) << response.error().ToString();
  EXPECT_EQ(response->status, 403);
  EXPECT_EQ(response->body, "hello");
}

TEST(HttpClient, RequestCarriesMethodHeadersAndBody) {
  OneAnswer server("HTTP/1.1 204 No Content\r\n\r\n");
  HttpClient client(kBodyBytesMax);
  HttpRequest request = RequestTo(server.port());
  request.method = "POST";
  request.target = "/control";
  request.headers["X-Test"] = "yes";
  request.body = "{}";
  ASSERT_TRUE(client.Call(std::move(request), kPatience).ok());
  const std::string seen = server.TakeRequest();
  EXPECT_TRUE(seen.starts_with("POST /control HTTP/1.1\r\n")) << seen;
  EXPECT_NE(seen.find("\r\nX-Test: yes\r\n"), std::string::npos) << seen;
  EXPECT_NE(seen.find("\r\nContent-Length: 2\r\n"), std::string::npos) << seen;
}

struct BadAnswer {
  const char* text;
  ErrorCode code;
};

class HttpClientBadAnswer : public ::testing::TestWithParam<BadAnswer> {};

TEST_P(HttpClientBadAnswer, IsClassified) {
  OneAnswer server(GetParam().text);
  HttpClient client(kBodyBytesMax);
  const auto response = client.Call(RequestTo(server.port()), kPatience);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code(), GetParam().code) << response.error().ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HttpClientBadAnswer,
    ::testing::Values(
        BadAnswer{"", ErrorCode::kUnavailable},
        BadAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", ErrorCode::kUnavailable},
        BadAnswer{"SSH-2.0-OpenSSH\r\n", ErrorCode::kCorrupt},
        BadAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", ErrorCode::kCorrupt}));

TEST(HttpClient, NobodyListeningIsUnavailable) {
  uint16_t port = 0;
  {
    OneAnswer gone("");
    port = gone.port();
  }
  HttpClient client(kBodyBytesMax);
  const auto response = client.Call(RequestTo(port), kPatience);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
}

TEST(HttpClient, NameInsteadOfAnAddressIsRefused) {
  HttpClient client(kBodyBytesMax);
  HttpRequest request = RequestTo(1);
  request.address = "localhost";
  EXPECT_EQ(client.Call(std::move(request), kPatience).error().code(), ErrorCode::kInvalidArgument);
}

// A socket that accepts into its backlog and never answers: what a stopped process looks like.
class Silence {
 public:
  Silence() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    LOCKSTEP_CHECK(
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0 &&
            ::listen(listener_.get(), 8) == 0 &&
            ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0,
        "no server");
    port_ = ntohs(where.sin_port);
  }

  uint16_t port() const { return port_; }

 private:
  UniqueFd listener_;
  uint16_t port_ = 0;
};

TEST(HttpClient, SilentServerTimesOutWithoutHoldingUpOthers) {
  Silence silent;
  OneAnswer server("HTTP/1.1 204 No Content\r\n\r\n");
  HttpClient client(kBodyBytesMax);
  std::promise<ErrorCode> timed_out;
  client.Start(RequestTo(silent.port()), milliseconds(50), [&](Result<HttpResponse> result) {
    timed_out.set_value(result.ok() ? ErrorCode::kInternal : result.error().code());
  });
  EXPECT_TRUE(client.Call(RequestTo(server.port()), kPatience).ok());
  EXPECT_EQ(timed_out.get_future().get(), ErrorCode::kTimeout);
}

TEST(HttpClient, DestructionEndsCallsUnderWay) {
  Silence silent;
  std::promise<ErrorCode> ended;
  {
    HttpClient client(kBodyBytesMax);
    client.Start(RequestTo(silent.port()), kPatience, [&](Result<HttpResponse> result) {
      ended.set_value(result.ok() ? ErrorCode::kInternal : result.error().code());
    });
  }
  EXPECT_EQ(ended.get_future().get(), ErrorCode::kAborted);
}

}  // namespace
}  // namespace lockstep::control
