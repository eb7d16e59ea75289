#include "operator/pod_client/http_client.h"

#include <algorithm>
#include <future>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

namespace lockstep::control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

class Exchange;

// The calls under way. Touched by the client's thread only.
using Exchanges = std::set<std::shared_ptr<Exchange>>;

// Whether the host answered that nobody is behind the port (any more). A host that cannot be
// reached, or a descriptor that we lack, says nothing of the process there.
bool IsClosedByPeer(const error_code& error) {
  return error == asio::error::connection_refused || error == asio::error::connection_reset ||
         error == asio::error::broken_pipe || error == asio::error::eof ||
         error == http::error::end_of_stream || error == http::error::partial_message;
}

ErrorCode ClassifyFailure(const error_code& error) {
  if (error == beast::error::timeout) {
    return ErrorCode::kTimeout;
  }
  if (error == asio::error::operation_aborted) {
    return ErrorCode::kAborted;
  }
  if (IsClosedByPeer(error)) {
    return ErrorCode::kPeerLost;
  }
  const bool is_http =
      error.category() == http::make_error_code(http::error::bad_version).category();
  return is_http ? ErrorCode::kCorrupt : ErrorCode::kUnavailable;
}

// One call, from connecting to its answer: connect -> write -> read header -> read. Each arrow is a
// completion on the client's thread; the stream's timer covers all of them.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context* io, HttpRequest request, HttpClient::Done done, Exchanges* running)
      : stream_(*io), request_(std::move(request)), done_(std::move(done)), running_(running) {}

  void Begin(Duration timeout, std::size_t body_bytes_max) {
    running_->insert(shared_from_this());
    error_code error;
    const auto address = asio::ip::make_address(request_.address, error);
    if (error) {
      Finish(Error(ErrorCode::kInvalidArgument, "not an IP address: \"" + request_.address + "\""));
      return;
    }
    const std::size_t asked = request_.answer_bytes_max;
    parser_.body_limit(asked == 0 ? body_bytes_max : std::min(asked, body_bytes_max));
    stream_.expires_after(timeout);
    stream_.async_connect(
        asio::ip::tcp::endpoint(address, request_.port),
        [self = shared_from_this()](error_code failure) { self->OnConnect(failure); });
  }

  void Cancel() { stream_.cancel(); }

 private:
  void OnConnect(error_code error) {
    if (error) {
      Fail("connecting", error);
      return;
    }
    message_.method_string(request_.method);
    message_.target(request_.target);
    message_.set(http::field::host, request_.address);
    message_.set(http::field::connection, "close");
    for (const auto& [name, value] : request_.headers) {
      message_.set(name, value);
    }
    message_.body() = std::move(request_.body);
    message_.prepare_payload();
    http::async_write(
        stream_, message_, [self = shared_from_this()](error_code failure, std::size_t) {
          self->OnWrite(failure);
        });
  }

  void OnWrite(error_code error) {
    if (error) {
      Fail("sending", error);
      return;
    }
    // By itself: Beast 1.74 forgets that an answer is too large when it arrives along with its
    // header.
    http::async_read_header(
        stream_, buffer_, parser_, [self = shared_from_this()](error_code failure, std::size_t) {
          self->OnHeader(failure);
        });
  }

  void OnHeader(error_code error) {
    if (error) {
      Fail("receiving", error);
      return;
    }
    http::async_read(
        stream_, buffer_, parser_, [self = shared_from_this()](error_code failure, std::size_t) {
          self->OnRead(failure);
        });
  }

  void OnRead(error_code error) {
    if (error) {
      Fail("receiving", error);
      return;
    }
    HttpResponse response;
    response.status = parser_.get().result_int();
    response.body = std::move(parser_.get().body());
    Finish(std::move(response));
  }

  void Fail(const std::string& doing, const error_code& error) {
    Finish(Error(ClassifyFailure(error),
                 doing + " " + request_.method + " " + request_.address + ":" +
                     std::to_string(request_.port) + request_.target + ": " + error.message()));
  }

  void Finish(Result<HttpResponse> result) {
    running_->erase(shared_from_this());
    done_(std::move(result));
  }

  beast::tcp_stream stream_;
  HttpRequest request_;
  HttpClient::Done done_;
  Exchanges* running_;
  http::request<http::string_body> message_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
};

}  // namespace

class HttpClient::Core {
 public:
  explicit Core(std::size_t body_bytes_max)
      : body_bytes_max_(body_bytes_max),
        work_(io_.get_executor()),
        thread_([this] { io_.run(); }) {}

  ~Core() {
    asio::post(io_, [this] {
      for (const auto& exchange : running_) {
        exchange->Cancel();
      }
    });
    work_.reset();  // run() returns when the cancelled calls have told their callers
    thread_.join();
  }

  void Start(HttpRequest request, Duration timeout, Done done) {
    auto exchange =
        std::make_shared<Exchange>(&io_, std::move(request), std::move(done), &running_);
    asio::post(io_, [this, exchange = std::move(exchange), timeout] {
      exchange->Begin(timeout, body_bytes_max_);
    });
  }

 private:
  std::size_t body_bytes_max_;
  asio::io_context io_{1};
  // Has the context open its descriptors now, rather than in a call when there may be none left: it
  // would throw then.
  asio::steady_timer opener_{io_};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Exchanges running_;
  std::thread thread_;  // last: it uses everything above
};

HttpClient::HttpClient(std::size_t body_bytes_max)
    : core_(std::make_unique<Core>(body_bytes_max)) {}

HttpClient::~HttpClient() = default;

void HttpClient::Start(HttpRequest request, Duration timeout, Done done) {
  core_->Start(std::move(request), timeout, std::move(done));
}

Result<HttpResponse> HttpClient::Call(HttpRequest request, Duration timeout) {
  auto answer = std::make_shared<std::promise<Result<HttpResponse>>>();
  auto future = answer->get_future();
  Start(std::move(request), timeout, [answer](Result<HttpResponse> result) {
    answer->set_value(std::move(result));
  });
  return future.get();  // bounded: Start answers by the timeout
}

}  // namespace lockstep::control
