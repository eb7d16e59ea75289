// The one source file of this folder that includes Boost.Beast: it takes long to compile.

#include "common/http/http_server.h"

#include <algorithm>
#include <cctype>
#include <list>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "common/base/check.h"
#include "common/base/io/signals_blocked.h"

namespace lockstep {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// How long a stopping server lets answers under way finish. Choice: nobody waits for us to exit.
constexpr auto kStopGrace = std::chrono::milliseconds(250);

// Accepting again after running out of descriptors.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

HttpServerRequest Convert(http::request<http::string_body>&& message) {
  HttpServerRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const std::size_t question = std::min(target.find('?'), target.size());
  request.path = target.substr(0, question);
  request.query = target.substr(std::min(question + 1, target.size()));
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char byte) {
      return static_cast<char>(std::tolower(byte));
    });
    request.headers.emplace(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

HttpServerResponse Route(const HttpRoutes& routes, const HttpServerRequest& request) {
  const auto route = routes.find(request.path);
  if (route == routes.end()) {
    return HttpServerResponse{404, "text/plain", "no such page\n"};
  }
  const auto handler = route->second.find(request.method);
  if (handler == route->second.end()) {
    return HttpServerResponse{405, "text/plain", "method not allowed\n"};
  }
  return handler->second(request);
}

// The answer to a request that cannot be read; status 0 for none (the caller has gone).
HttpServerResponse AnswerUnreadable(error_code error) {
  if (error == http::error::header_limit) {
    return HttpServerResponse{431, "text/plain", "header too large\n"};
  }
  if (error == http::error::body_limit) {
    return HttpServerResponse{413, "text/plain", "body too large\n"};
  }
  const bool is_malformed =
      error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message;
  return is_malformed ? HttpServerResponse{400, "text/plain", "malformed request\n"}
                      : HttpServerResponse{0, {}, {}};
}

}  // namespace

std::string_view HttpServerRequest::Header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

// Everything that runs on the server's thread. Sessions keep themselves alive through the handlers
// of their pending operation.
class HttpServer::Core {
 public:
  Core(HttpServerOptions options, HttpHandler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {}

  ~Core() {
    if (thread_.joinable()) {
      asio::post(context_, [this] { BeginStop(); });
      thread_.join();
    }
    is_stopping_ = false;  // sessions cut off below have nothing left to stop
  }

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Status Open() {
    error_code error;
    const asio::ip::address address = asio::ip::make_address(options_.bind_address, error);
    if (error) {
      return Error(ErrorCode::kInvalidArgument,
                   "\"" + options_.bind_address + "\" is not a numeric address");
    }
    const tcp::endpoint endpoint(address, static_cast<unsigned short>(options_.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) {
      acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    }
    if (!error) {
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return ListenError(error);
    }
    port_ = acceptor_.local_endpoint(error).port();
    Accept();
    const SignalsBlocked blocked;  // inherited by the thread
    thread_ = std::thread([this] { context_.run(); });
    return OkStatus();
  }

  int port() const { return port_; }

 private:
  class Session;

  // Sessions that have not sent all of their request, the oldest first.
  using Readers = std::list<Session*>;

  Error ListenError(error_code error) const {
    const std::string what =
        "cannot listen on " + options_.bind_address + ":" + std::to_string(options_.port);
    if (error == asio::error::address_in_use) {
      return Error(ErrorCode::kAlreadyExists, what + ": the port is taken");
    }
    return SystemError(error.value(), what);
  }

  void Accept() {
    acceptor_.async_accept(
        [this](error_code error, tcp::socket socket) { OnAccept(error, std::move(socket)); });
  }

  void OnAccept(error_code error, tcp::socket socket);
  void SessionEnded();
  void BeginStop();

  HttpServerOptions options_;
  HttpHandler handler_;
  int port_ = 0;
  int session_count_ = 0;
  bool is_stopping_ = false;
  Readers readers_;
  asio::io_context context_{1};  // its end ends the sessions, which count themselves out above
  tcp::acceptor acceptor_{context_};
  asio::steady_timer timer_{context_};
  std::thread thread_;
};

// One connection: one request, one answer.
class HttpServer::Core::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Core* core) : stream_(std::move(socket)), core_(core) {
    ++core_->session_count_;
    parser_.header_limit(static_cast<uint32_t>(core_->options_.header_bytes_max));
    parser_.body_limit(core_->options_.body_bytes_max);
  }

  ~Session() {
    StopReading();
    core_->SessionEnded();
  }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Run() {
    place_ = core_->readers_.insert(core_->readers_.end(), this);
    stream_.expires_after(core_->options_.connection_deadline);  // for all that follows
    http::async_read(
        stream_, buffer_, parser_, [self = shared_from_this()](error_code error, std::size_t) {
          self->OnRead(error);
        });
  }

  // Makes room for another.
  void Drop() {
    StopReading();
    stream_.close();
  }

 private:
  void StopReading() {
    if (place_ != core_->readers_.end()) {
      core_->readers_.erase(place_);
      place_ = core_->readers_.end();
    }
  }

  void OnRead(error_code error) {
    StopReading();
    const HttpServerResponse response =
        error ? AnswerUnreadable(error) : core_->handler_(Convert(parser_.release()));
    if (response.status == 0) {
      return;
    }
    if (error && core_->options_.on_unreadable) {
      core_->options_.on_unreadable(response.status);
    }
    message_.result(static_cast<unsigned>(response.status));
    message_.version(11);
    message_.keep_alive(false);
    message_.set(http::field::content_type, response.content_type);
    message_.set(http::field::cache_control, "no-store");
    message_.body() = response.body;
    message_.prepare_payload();
    http::async_write(stream_, message_, [self = shared_from_this()](error_code, std::size_t) {
      self->OnWritten();
    });
  }

  void OnWritten() {
    error_code ignored;  // the caller may have hung up already
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  Core* core_;
  Readers::iterator place_ = core_->readers_.end();
  beast::flat_buffer buffer_;
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> message_;
};

void HttpServer::Core::OnAccept(error_code error, tcp::socket socket) {
  if (is_stopping_ || error == asio::error::operation_aborted) {
    return;
  }
  if (error) {
    options_.logger->Warn("cannot accept connections", {{"error", error.message()}});
    timer_.expires_after(kAcceptPause);
    timer_.async_wait([this](error_code cancelled) {
      if (!cancelled && !is_stopping_) {
        Accept();
      }
    });
    return;
  }
  if (session_count_ >= options_.connections_max && !readers_.empty()) {
    readers_.front()->Drop();  // its place is free before long: its handler runs next
    std::make_shared<Session>(std::move(socket), this)->Run();
  } else if (session_count_ < options_.connections_max) {
    std::make_shared<Session>(std::move(socket), this)->Run();
  }
  Accept();
}

void HttpServer::Core::SessionEnded() {
  --session_count_;
  if (is_stopping_ && session_count_ == 0) {
    context_.stop();
  }
}

void HttpServer::Core::BeginStop() {
  is_stopping_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  if (session_count_ == 0) {
    context_.stop();
    return;
  }
  timer_.expires_after(kStopGrace);
  timer_.async_wait([this](error_code) { context_.stop(); });
}

HttpServer::HttpServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return core_->port();
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                      HttpRoutes routes) {
  return StartWithHandler(std::move(options),
                          [routes = std::move(routes)](const HttpServerRequest& request) {
                            return Route(routes, request);
                          });
}

Result<std::unique_ptr<HttpServer>> HttpServer::StartWithHandler(HttpServerOptions options,
                                                                 HttpHandler handler) {
  LOCKSTEP_CHECK(options.logger != nullptr, "the server needs a logger");
  auto core = std::make_unique<Core>(std::move(options), std::move(handler));
  LOCKSTEP_RETURN_IF_ERROR(core->Open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

}  // namespace lockstep
