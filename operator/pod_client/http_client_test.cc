#include "operator/pod_client/http_client.h"

#include <future>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "operator/pod_client/testing/fake_pod_server.h"

namespace lockstep::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kBodyBytesMax = 1024;

HttpRequest RequestTo(uint16_t port) {
  HttpRequest request;
  request.address = "127.0.0.1";
  request.port = port;
  request.target = "/status";
  return request;
}

TEST(HttpClient, AnswerCarriesStatusAndBody) {
  FakePodServer server("HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nhello");
  HttpClient client(kBodyBytesMax);
  const auto response = client.Call(RequestTo(server.port()), kAnswerPatience);
  ASSERT_TRUE(response.ok()) << response.error().ToString();
  EXPECT_EQ(response->status, 403);
  EXPECT_EQ(response->body, "hello");
}

TEST(HttpClient, RequestCarriesMethodHeadersAndBody) {
  FakePodServer server("HTTP/1.1 204 No Content\r\n\r\n");
  HttpClient client(kBodyBytesMax);
  HttpRequest request = RequestTo(server.port());
  request.method = "POST";
  request.target = "/control";
  request.headers["X-Test"] = "yes";
  request.body = "{}";
  ASSERT_TRUE(client.Call(std::move(request), kAnswerPatience).ok());
  const std::string seen = server.request();
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
  FakePodServer server(GetParam().text);
  HttpClient client(kBodyBytesMax);
  const auto response = client.Call(RequestTo(server.port()), kAnswerPatience);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code(), GetParam().code) << response.error().ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    HttpClientBadAnswer,
    ::testing::Values(
        BadAnswer{"", ErrorCode::kPeerLost},
        BadAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", ErrorCode::kPeerLost},
        BadAnswer{"SSH-2.0-OpenSSH\r\n", ErrorCode::kCorrupt},
        BadAnswer{"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", ErrorCode::kCorrupt}));

TEST(HttpClient, NobodyListeningIsLost) {
  uint16_t port = 0;
  {
    FakePodServer gone("");
    port = gone.port();
  }
  HttpClient client(kBodyBytesMax);
  const auto response = client.Call(RequestTo(port), kAnswerPatience);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code(), ErrorCode::kPeerLost);
}

// A limit of ours says nothing of the process at the other end.
TEST(HttpClient, WithoutADescriptorNothingIsSaidOfTheOtherSide) {
  FakePodServer server("HTTP/1.1 204 No Content\r\n\r\n");
  HttpClient client(kBodyBytesMax);
  ASSERT_TRUE(
      client.Call(RequestTo(server.port()), kAnswerPatience).ok());  // has what it keeps open
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto response = client.Call(RequestTo(server.port()), kAnswerPatience);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable) << response.error().ToString();
}

TEST(HttpClient, NameInsteadOfAnAddressIsRefused) {
  HttpClient client(kBodyBytesMax);
  HttpRequest request = RequestTo(1);
  request.address = "localhost";
  EXPECT_EQ(client.Call(std::move(request), kAnswerPatience).error().code(),
            ErrorCode::kInvalidArgument);
}

TEST(HttpClient, SilentServerTimesOutWithoutHoldingUpOthers) {
  FakePodServer silent(std::nullopt);
  FakePodServer server("HTTP/1.1 204 No Content\r\n\r\n");
  HttpClient client(kBodyBytesMax);
  std::promise<ErrorCode> timed_out;
  client.Start(RequestTo(silent.port()), milliseconds(50), [&](Result<HttpResponse> result) {
    timed_out.set_value(result.ok() ? ErrorCode::kInternal : result.error().code());
  });
  EXPECT_TRUE(client.Call(RequestTo(server.port()), kAnswerPatience).ok());
  EXPECT_EQ(timed_out.get_future().get(), ErrorCode::kTimeout);
}

TEST(HttpClient, DestructionEndsCallsUnderWay) {
  FakePodServer silent(std::nullopt);
  std::promise<ErrorCode> ended;
  {
    HttpClient client(kBodyBytesMax);
    client.Start(RequestTo(silent.port()), kAnswerPatience, [&](Result<HttpResponse> result) {
      ended.set_value(result.ok() ? ErrorCode::kInternal : result.error().code());
    });
  }
  EXPECT_EQ(ended.get_future().get(), ErrorCode::kAborted);
}

TEST(HttpClient, AnswerIsBoundedByWhatTheRequestTakesAndByTheClient) {
  FakePodServer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  HttpClient client(kBodyBytesMax);
  HttpRequest request = RequestTo(server.port());
  request.answer_bytes_max = 4;
  EXPECT_EQ(client.Call(request, kAnswerPatience).error().code(), ErrorCode::kCorrupt);
  request.answer_bytes_max = 5;
  EXPECT_TRUE(client.Call(request, kAnswerPatience).ok());
  HttpClient narrow(4);
  EXPECT_EQ(narrow.Call(request, kAnswerPatience).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace lockstep::control
