#include "common/http/http_server.h"

#include <memory>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/io/unique_fd.h"

namespace lockstep {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kPatienceMs = 20000;  // far above what anything here takes

UniqueFd Connect(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

void Send(const UniqueFd& fd, const std::string& text) {
  // The server may close before all is sent: what it answered is what counts.
  (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// All bytes until the server closes.
std::string ReadAll(const UniqueFd& fd) {
  std::string text;
  char buffer[4096];
  while (true) {
    pollfd readable{fd.get(), POLLIN, 0};
    if (::poll(&readable, 1, kPatienceMs) != 1) {
      ADD_FAILURE() << "the server neither answers nor closes";
      return text;
    }
    const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      return text;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    options.bind_address = "127.0.0.1";
    options.logger = logger_.get();
    HttpRoutes routes;
    routes["/hello"]["GET"] = [](const HttpServerRequest& request) {
      return HttpServerResponse{
          200, "text/plain", "hello " + std::string(request.Header("x-name")) + request.query};
    };
    routes["/echo"]["POST"] = [](const HttpServerRequest& request) {
      return HttpServerResponse{200, "text/plain", request.body};
    };
    routes["/large"]["GET"] = [](const HttpServerRequest&) {
      return HttpServerResponse{200, "text/plain", std::string(32U << 20U, 'x')};
    };
    Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(options, std::move(routes));
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
  }

  std::string Ask(const std::string& text) {
    const UniqueFd fd = Connect(server_->port());
    Send(fd, text);
    return ReadAll(fd);
  }

  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HandlerSeesPathHeadersAndBody) {
  Start();
  const std::string hello = Ask("GET /hello?x=1 HTTP/1.1\r\nHost: a\r\nX-Name: you\r\n\r\n");
  EXPECT_THAT(hello, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(hello, EndsWith("\r\n\r\nhello youx=1"));
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), EndsWith("\r\n\r\nabc"));
}

TEST_F(HttpServerTest, UnknownPathsAndMethodsAreToldApart) {
  Start();
  EXPECT_THAT(Ask("GET /nothing HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("DELETE /hello HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpServerTest, WhatIsNotHttpIsAnsweredSo) {
  Start();
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, WhatNoHandlerSeesIsTold) {
  std::vector<int> statuses;
  HttpServerOptions options;
  options.body_bytes_max = 16;
  options.on_unreadable = [&statuses](int status) { statuses.push_back(status); };
  Start(options);
  Ask("nonsense\r\n\r\n");
  Ask("POST /echo HTTP/1.1\r\nContent-Length: 17\r\n\r\n");
  Ask("GET /nothing HTTP/1.1\r\n\r\n");
  server_.reset();
  EXPECT_EQ(statuses, (std::vector<int>{400, 413}));
}

TEST_F(HttpServerTest, OneHandlerForAllPathsAndMethods) {
  HttpServerOptions options;
  options.bind_address = "127.0.0.1";
  options.logger = logger_.get();
  Result<std::unique_ptr<HttpServer>> server =
      HttpServer::StartWithHandler(options, [](const HttpServerRequest& request) {
        return HttpServerResponse{200, "text/plain", request.method + " " + request.path};
      });
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  server_ = std::move(server).value();
  EXPECT_THAT(Ask("PUT /a/b HTTP/1.1\r\n\r\n"), EndsWith("\r\n\r\nPUT /a/b"));
}

TEST_F(HttpServerTest, LimitsOfHeaderAndBodyHold) {
  HttpServerOptions options;
  options.header_bytes_max = 256;
  options.body_bytes_max = 16;
  Start(options);
  EXPECT_THAT(Ask("GET /hello HTTP/1.1\r\nX-Name: " + std::string(300, 'n') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nContent-Length: 17\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, SilentCallerIsCutOffAtTheDeadline) {
  HttpServerOptions options;
  options.connection_deadline = std::chrono::milliseconds(50);
  Start(options);
  EXPECT_EQ(Ask("GET /hel"), "");
}

TEST_F(HttpServerTest, CallerThatDoesNotReadIsCutOffAtTheDeadline) {
  HttpServerOptions options;
  options.connection_deadline = std::chrono::milliseconds(50);
  options.connections_max = 1;
  Start(options);
  const UniqueFd slow = Connect(server_->port());
  Send(slow, "GET /large HTTP/1.1\r\n\r\n");
  // Its place is free again once it is cut off; until then others are closed unanswered.
  std::string answer;
  while (answer.empty() && !HasFailure()) {
    answer = Ask("GET /hello HTTP/1.1\r\n\r\n");
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, CallersThatNeverFinishDoNotKeepOthersOut) {
  HttpServerOptions options;
  options.connections_max = 4;
  options.connection_deadline = std::chrono::hours(1);
  Start(options);
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 3 * options.connections_max; ++i) {
    slow.push_back(Connect(server_->port()));
    Send(slow.back(), "GET /hel");
  }
  EXPECT_THAT(Ask("GET /hello HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(ReadAll(slow.front()), "") << "the oldest had to go";
  Send(slow.back(), "lo HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ReadAll(slow.back()), StartsWith("HTTP/1.1 200 ")) << "the newest did not";
}

TEST_F(HttpServerTest, StopEndsOpenConnections) {
  Start();
  const UniqueFd idle = Connect(server_->port());
  Send(idle, "GET /hel");
  server_.reset();
  EXPECT_EQ(ReadAll(idle), "");
}

TEST_F(HttpServerTest, TakenPortIsNamed) {
  Start();
  HttpServerOptions options;
  options.bind_address = "127.0.0.1";
  options.port = server_->port();
  options.logger = logger_.get();
  const auto second = HttpServer::Start(options, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message(), HasSubstr(":" + std::to_string(server_->port())));
}

TEST_F(HttpServerTest, AddressMustBeNumeric) {
  HttpServerOptions options;
  options.bind_address = "somewhere";
  options.logger = logger_.get();
  EXPECT_EQ(HttpServer::Start(options, {}).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep
