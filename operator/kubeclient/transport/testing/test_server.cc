#include "operator/kubeclient/transport/testing/test_server.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/io/signals_blocked.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kReadBytes = 16 * 1024;

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

BioPtr ReadingFrom(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
}

X509Ptr Certificate(const std::string& pem) {
  return X509Ptr(PEM_read_bio_X509(ReadingFrom(pem).get(), nullptr, nullptr, nullptr), &X509_free);
}

ssl_ctx_st* ServerContext(const TestServerOptions& options) {
  if (options.identity.key_pem.empty()) {
    return nullptr;
  }
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  const X509Ptr certificate = Certificate(options.identity.certificate_pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(
                       ReadingFrom(options.identity.key_pem).get(), nullptr, nullptr, nullptr),
                   &EVP_PKEY_free);
  LOCKSTEP_CHECK(SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
                     SSL_CTX_use_PrivateKey(context, key.get()) == 1,
                 "bad identity");
  if (!options.client_ca_pem.empty()) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), Certificate(options.client_ca_pem).get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

// A listening socket, and its port.
std::pair<UniqueFd, uint16_t> Listen(const std::string& address, uint16_t wanted_port) {
  const bool is_ipv6 = address.find(':') != std::string::npos;
  UniqueFd listener(::socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage where{};
  socklen_t size = 0;
  if (is_ipv6) {
    auto* const ipv6 = reinterpret_cast<sockaddr_in6*>(&where);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(wanted_port);
    ::inet_pton(AF_INET6, address.c_str(), &ipv6->sin6_addr);
    size = sizeof *ipv6;
  } else {
    auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&where);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(wanted_port);
    ::inet_pton(AF_INET, address.c_str(), &ipv4->sin_addr);
    size = sizeof *ipv4;
  }
  const int is_on = 1;  // a port that was just in use
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
  auto* const generic = reinterpret_cast<sockaddr*>(&where);
  LOCKSTEP_CHECK(::bind(listener.get(), generic, size) == 0 &&
                     ::listen(listener.get(), SOMAXCONN) == 0 &&
                     ::getsockname(listener.get(), generic, &size) == 0,
                 "cannot listen on " + address);
  const uint16_t port = is_ipv6 ? reinterpret_cast<sockaddr_in6*>(&where)->sin6_port
                                : reinterpret_cast<sockaddr_in*>(&where)->sin_port;
  return {std::move(listener), ntohs(port)};
}

std::string ClientName(const ssl_st* tls) {
  const X509Ptr certificate(tls == nullptr ? nullptr : SSL_get1_peer_certificate(tls), &X509_free);
  std::array<char, 256> name{};
  if (certificate != nullptr) {
    X509_NAME_get_text_by_NID(
        X509_get_subject_name(certificate.get()), NID_commonName, name.data(), name.size());
  }
  return name.data();
}

// "Name: value" lines into `request`.
void ParseHeaders(std::string_view lines, TestRequest* request) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(std::min(lines.size(), line.size() + 2));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char byte) {
        return static_cast<char>(std::tolower(byte));
      });
      const std::size_t value = std::min(line.find_first_not_of(' ', colon + 1), line.size());
      request->headers[name] = line.substr(value);
    }
  }
}

}  // namespace

struct TestServer::Connection {
  int number = 0;
  UniqueFd socket;
  std::thread thread;
};

void TestPeer::Send(std::string_view bytes) {
  while (is_open_ && !bytes.empty()) {
    const int size = static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20));
    const auto sent = tls_ != nullptr
                          ? SSL_write(tls_, bytes.data(), size)
                          : ::send(socket_, bytes.data(), static_cast<std::size_t>(size), 0);
    is_open_ = sent > 0;
    bytes.remove_prefix(is_open_ ? static_cast<std::size_t>(sent) : 0);
  }
}

void TestPeer::Reply(int status, std::string_view body, const std::string& headers) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " Status\r\n" + headers;
  text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  Send(text.append(body));
}

void TestPeer::BeginChunks(int status) {
  Send("HTTP/1.1 " + std::to_string(status) + " Status\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void TestPeer::Chunk(std::string_view bytes) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  Send(std::string(size.data()).append(bytes).append("\r\n"));
}

void TestPeer::EndChunks() {
  Send("0\r\n\r\n");
}

void TestPeer::Close() {
  if (tls_ != nullptr && is_open_) {
    SSL_shutdown(tls_);
  }
  CloseRudely();
}

void TestPeer::CloseRudely() {
  ::shutdown(socket_, SHUT_WR);
  is_open_ = false;
}

void TestPeer::Reset() {
  const linger abort{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  is_open_ = false;
}

void TestPeer::AwaitGoodbyeSeen() {
  tcp_info info{};
  socklen_t size = sizeof info;
  do {
    std::this_thread::yield();
  } while (::getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state == TCP_FIN_WAIT1);
}

void TestPeer::Vanish() {
  int unacknowledged = 1;
  while (unacknowledged > 0 && ::ioctl(socket_, SIOCOUTQ, &unacknowledged) == 0) {
    std::this_thread::yield();
  }
  sock_filter drop_all = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog filter = {1, &drop_all};
  LOCKSTEP_CHECK(::setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0,
                 "no filter on the socket");
}

void TestPeer::AwaitClose() {
  std::array<char, kReadBytes> ignored{};
  while (Receive(ignored.data(), ignored.size()) > 0) {
  }
}

std::size_t TestPeer::Receive(char* bytes, std::size_t size) {
  const auto got = !is_open_         ? 0
                   : tls_ != nullptr ? SSL_read(tls_, bytes, static_cast<int>(size))
                                     : ::recv(socket_, bytes, size, 0);
  is_open_ = got > 0;
  return is_open_ ? static_cast<std::size_t>(got) : 0;
}

TestServer::TestServer(const TestServerOptions& options, Handler handler)
    : handler_(std::move(handler)), tls_(ServerContext(options), &SSL_CTX_free) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  std::tie(listener_, port_) = Listen(options.address, options.port);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { Accept(); });
}

TestServer::~TestServer() {
  is_stopping_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
  {
    const std::lock_guard lock(mutex_);  // nobody closes a socket between this and that
    for (const auto& connection : connections_) {
      ::shutdown(connection->socket.get(), SHUT_RDWR);
    }
  }
  for (const auto& connection : connections_) {
    connection->thread.join();
  }
}

std::vector<TestRequest> TestServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void TestServer::Accept() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_open()) {
      return;
    }
    const int is_on = 1;  // as Go's servers do
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof is_on);
    auto connection = std::make_unique<Connection>();
    connection->number = connection_count_++;
    connection->socket = std::move(socket);
    const std::lock_guard lock(mutex_);
    Connection* const raw = connections_.emplace_back(std::move(connection)).get();
    raw->thread = std::thread([this, raw] { Serve(raw); });
  }
}

void TestServer::Serve(Connection* connection) {
  const int now_open = ++open_count_;
  int most = open_count_max_;
  while (now_open > most && !open_count_max_.compare_exchange_weak(most, now_open)) {
  }
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(
      tls_ == nullptr ? nullptr : SSL_new(tls_.get()), &SSL_free);
  bool is_ready = true;
  if (tls != nullptr) {
    SSL_set_fd(tls.get(), connection->socket.get());
    is_ready = SSL_accept(tls.get()) == 1;
  }
  TestPeer peer(connection->socket.get(), tls.get());
  std::string buffer;
  TestRequest request;
  request.connection = connection->number;
  request.client_name = ClientName(tls.get());
  while (is_ready && peer.is_open() && ReadRequest(&peer, &buffer, &request)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    handler_(request, peer);
  }
  --open_count_;
  const std::lock_guard lock(mutex_);
  if (!is_stopping_) {
    connection->socket.Reset();
  }
}

bool TestServer::ReadRequest(TestPeer* peer, std::string* buffer, TestRequest* request) {
  std::array<char, kReadBytes> bytes{};
  const auto more = [&] {
    const std::size_t got = peer->Receive(bytes.data(), bytes.size());
    buffer->append(bytes.data(), got);
    return got > 0;
  };
  std::size_t end = 0;
  while ((end = buffer->find("\r\n\r\n")) == std::string::npos) {
    if (!more()) {
      return false;
    }
  }
  const std::size_t line_end = buffer->find("\r\n");
  const std::string line = buffer->substr(0, line_end);
  const std::size_t space = line.find(' ');
  request->method = line.substr(0, space);
  request->target = line.substr(space + 1, line.rfind(' ') - space - 1);
  request->headers.clear();
  ParseHeaders(std::string_view(*buffer).substr(line_end + 2, end - line_end), request);
  const auto length = request->headers.find("content-length");
  const std::size_t size = length == request->headers.end() ? 0 : std::stoul(length->second);
  buffer->erase(0, end + 4);
  while (buffer->size() < size) {
    if (!more()) {
      return false;
    }
  }
  request->body = buffer->substr(0, size);
  buffer->erase(0, size);
  return true;
}

}  // namespace lockstep::control
