#include "tests/fuzz/http_probe.h"

#include <algorithm>
#include <array>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/io/unique_fd.h"

namespace lockstep::fuzz {
namespace {

constexpr std::size_t kBodyBytesMax = 1024;

// What of HttpServerRequest's description does not hold; empty when all does.
std::string BrokenPromise(const HttpServerRequest& request) {
  if (request.path != "/page") {
    return "another path";
  }
  if (request.body.size() > kBodyBytesMax) {
    return "a body above the limit";
  }
  const auto is_upper = [](char byte) { return byte >= 'A' && byte <= 'Z'; };
  for (const auto& [name, value] : request.headers) {
    if (std::any_of(name.begin(), name.end(), is_upper) || request.Header(name) != value) {
      return "a header that is not found by its name in lower case";
    }
  }
  return "";
}

HttpServerResponse Answer(const HttpServerRequest& request) {
  const std::string broken = BrokenPromise(request);
  return broken.empty() ? HttpServerResponse{200, "text/plain", "fine"}
                        : HttpServerResponse{500, "text/plain", broken};
}

}  // namespace

HttpProbe::HttpProbe() : logger_(MakeNullLogger()) {
  HttpServerOptions options;
  options.bind_address = "127.0.0.1";
  options.header_bytes_max = 1024;
  options.body_bytes_max = kBodyBytesMax;
  options.logger = logger_.get();
  auto server =
      HttpServer::Start(std::move(options), {{"/page", {{"GET", Answer}, {"POST", Answer}}}});
  LOCKSTEP_CHECK(server.ok(), "a server on loopback");
  server_ = std::move(server).value();
}

std::string HttpProbe::Exchange(std::string_view bytes) const {
  const UniqueFd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Ends with a reset: thousands of closed connections would use up the ports.
  const linger at_once{1, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(server_->port()));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  LOCKSTEP_CHECK(::connect(connection.get(), generic, sizeof(address)) == 0, "loopback");
  // A server that has read enough may close at any time; the answer tells.
  static_cast<void>(::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  ::shutdown(connection.get(), SHUT_WR);
  std::string answer;
  std::array<char, 4096> block;
  for (;;) {
    const ssize_t got = ::recv(connection.get(), block.data(), block.size(), 0);
    if (got < 0) {
      return "";
    }
    if (got == 0) {
      return answer;
    }
    answer.append(block.data(), static_cast<std::size_t>(got));
  }
}

Finding HttpProbe::Ask(std::string_view bytes) const {
  constexpr std::array<std::string_view, 5> kRefusals = {"400", "404", "405", "413", "431"};
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  const std::string answer = Exchange(bytes);
  if (answer.empty()) {
    return {};
  }
  const std::string_view code =
      std::string_view(answer).substr(std::min(kVersion.size(), answer.size()), 3);
  const bool is_fine = code == "200" && answer.ends_with("fine");
  const bool is_refusal = std::find(kRefusals.begin(), kRefusals.end(), code) != kRefusals.end();
  if (!answer.starts_with(kVersion) || !(is_fine || is_refusal)) {
    return {is_fine, "a strange answer:\n" + answer};
  }
  return {is_fine, ""};
}

}  // namespace lockstep::fuzz
