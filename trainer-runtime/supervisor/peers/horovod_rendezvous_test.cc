#include "trainer-runtime/supervisor/peers/horovod_rendezvous.h"

#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/io/unique_fd.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class NotingLogger final : public Logger {
 public:
  void Log(LogLevel /*level*/, std::string_view message, LogFields fields) override {
    std::string line(message);
    for (const LogField& field : fields) {
      line += " " + std::string(field.key) + "=" + field.value;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(line);
  }

  std::vector<std::string> lines() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class HorovodRequests : public ::testing::Test {
 protected:
  HttpServerResponse Ask(const std::string& method,
                         const std::string& path,
                         const std::string& body = {}) {
    HttpServerRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    return handler_(request);
  }

  static HorovodStoreOptions Options() {
    HorovodStoreOptions options = HorovodStoreFor(2, 1);
    options.value_bytes_max = 16;
    options.key_count_max = 2;
    options.total_bytes_max = 40;
    return options;
  }

  NotingLogger logger_;
  HttpHandler handler_ = MakeHorovodHandler(Options(), &logger_);
};

TEST_F(HorovodRequests, KeyIsPolledUntilItIsThere) {
  EXPECT_EQ(Ask("GET", "/global/1").status, 404);
  EXPECT_EQ(Ask("PUT", "/global/1", std::string("\0\1", 2)).status, 200);
  const HttpServerResponse there = Ask("GET", "/global/1");
  EXPECT_EQ(there.status, 200);
  EXPECT_EQ(there.body, std::string("\0\1", 2));
}

TEST_F(HorovodRequests, ScopeIsEmptyOnceAllRanksAreConnected) {
  Ask("PUT", "/global/0", "a");
  Ask("PUT", "/global/1", "b");
  EXPECT_EQ(Ask("DELETE", "/global/0").status, 200);
  EXPECT_EQ(Ask("GET", "/global/0").status, 200);
  EXPECT_EQ(Ask("DELETE", "/global/1").status, 200);
  EXPECT_EQ(Ask("GET", "/global/0").status, 404);
}

TEST_F(HorovodRequests, HostNamesAreScopes) {
  const std::string path = "/local_job-worker-1.job.default.svc/0";
  EXPECT_EQ(Ask("PUT", path, "v").status, 200);
  EXPECT_EQ(Ask("GET", path).body, "v");
}

TEST_F(HorovodRequests, PathsThatAreNoScopeAndKeyAreRefused) {
  for (const std::string path : {"", "/", "/global", "/global/", "//0", "/a/b/c", "global/0"}) {
    EXPECT_EQ(Ask("GET", path).status, 400) << path;
    EXPECT_EQ(Ask("PUT", path, "v").status, 400) << path;
    EXPECT_EQ(Ask("DELETE", path).status, 400) << path;
  }
  EXPECT_EQ(Ask("GET", "/" + std::string(600, 's') + "/0").status, 400);
}

TEST_F(HorovodRequests, OtherMethodsAreRefused) {
  EXPECT_EQ(Ask("POST", "/global/0", "v").status, 405);
  EXPECT_EQ(Ask("GET", "/global/0").status, 404);
}

TEST_F(HorovodRequests, EachBoundHasItsAnswerAndItsLine) {
  EXPECT_EQ(Ask("PUT", "/s/a", std::string(17, 'v')).status, 413);
  EXPECT_EQ(Ask("PUT", "/s/a", std::string(16, 'v')).status, 200);
  EXPECT_EQ(Ask("PUT", "/long-scope/b", std::string(16, 'v')).status, 507);
  EXPECT_EQ(Ask("PUT", "/s/b").status, 200);
  EXPECT_EQ(Ask("PUT", "/s/c").status, 507);
  const std::vector<std::string> lines = logger_.lines();
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], HasSubstr("status=413 error=the value is too long request=PUT /s/a"));
  EXPECT_THAT(lines[1], HasSubstr("ranks=2"));
  EXPECT_THAT(lines[2], HasSubstr("status=507 error=all values together are too long"));
  EXPECT_THAT(lines[3], HasSubstr("status=507 error=there are too many keys"));
}

TEST_F(HorovodRequests, RefusalsAreLoggedToALimit) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Ask("GET", "/").status, 400);
  }
  EXPECT_THAT(logger_.lines(), SizeIs(17));
}

TEST(HorovodRendezvous, IsHeldByThePodOfRankZero) {
  WorkerEnvironment environment;
  environment.host = "a";
  environment.master = {"a", 29500};
  EXPECT_FALSE(HoldsHorovodRendezvous(environment)) << "a parameter server";
  environment.rank = 0;
  EXPECT_TRUE(HoldsHorovodRendezvous(environment));
  environment.rank = 2;
  environment.host = "b";
  EXPECT_FALSE(HoldsHorovodRendezvous(environment));
}

class HorovodServer : public ::testing::Test {
 protected:
  void SetUp() override {
    WorkerEnvironment environment;
    environment.rank = 0;
    environment.host = "127.0.0.1";
    environment.master = {"127.0.0.1", 29500};
    environment.bind_address = "127.0.0.1";
    environment.horovod_port = 0;  // any free one
    Result<std::unique_ptr<HttpServer>> server = ServeHorovod(environment, &logger_);
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
  }

  // The answer to the bytes, until the server closes.
  std::string Ask(const std::string& text) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(got));
    }
    return answer;
  }

  NotingLogger logger_;
  std::unique_ptr<HttpServer> server_;
};

// Byte by byte what Horovod 0.28.1 sends.
TEST_F(HorovodServer, AnswersHorovodsRequests) {
  const std::string host = "Host: 127.0.0.1\r\n";
  EXPECT_THAT(Ask("GET /global/0 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("PUT /global/0 HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\na/b"),
              StartsWith("HTTP/1.1 200 "));
  const std::string value = Ask("GET /global/0 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n");
  EXPECT_THAT(value, HasSubstr("\r\nContent-Length: 3\r\n"));  // in just this writing
  EXPECT_THAT(value, ::testing::EndsWith("\r\n\r\na/b"));
  EXPECT_THAT(Ask("DELETE /global/0 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HorovodServer, TellsOfRequestsItCannotRead) {
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("PUT /global/0 HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  const std::vector<std::string> lines = logger_.lines();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("status=400"));
  EXPECT_THAT(lines[1], HasSubstr("status=413"));
}

}  // namespace
}  // namespace lockstep::runtime
