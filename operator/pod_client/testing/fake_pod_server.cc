#include "operator/pod_client/testing/fake_pod_server.h"

#include <array>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

constexpr int kBacklog = 8;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

}  // namespace

FakePodServer::FakePodServer(std::optional<std::string> answer)
    : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  LOCKSTEP_CHECK(
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0 &&
          ::listen(listener_.get(), kBacklog) == 0 &&
          ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0,
      "no server");
  port_ = ntohs(where.sin_port);
  if (answer.has_value()) {
    thread_ = std::jthread([this, text = *std::move(answer)] { Serve(text); });
  }
}

FakePodServer::~FakePodServer() {
  ::shutdown(listener_.get(), SHUT_RDWR);  // wakes accept
}

std::string FakePodServer::request() const {
  const std::lock_guard lock(mutex_);
  return request_;
}

void FakePodServer::Serve(const std::string& answer) {
  for (;;) {
    const UniqueFd connection(::accept(listener_.get(), nullptr, nullptr));
    if (connection.get() < 0) {
      return;
    }
    std::string request;
    std::array<char, 4096> buffer{};
    ssize_t got = 1;
    while (got > 0 && request.find(kHeadEnd) == std::string::npos) {
      got = ::read(connection.get(), buffer.data(), buffer.size());
      request.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    {
      const std::lock_guard lock(mutex_);
      request_ = std::move(request);
    }
    [[maybe_unused]] const Status sent = WriteAll(connection.get(), answer);
    ::shutdown(connection.get(), SHUT_WR);
    while (::read(connection.get(), buffer.data(), buffer.size()) > 0) {  // until the client closes
    }
  }
}

}  // namespace lockstep::control
