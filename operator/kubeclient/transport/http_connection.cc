// Together with http_client.cc the operator's only sources that include Boost.Beast: it takes long
// to compile.

#include "operator/kubeclient/transport/http_connection.h"

#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/io/socket_liveness.h"
#include "operator/kubeclient/transport/request_text.h"

namespace lockstep::control {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using kube::Fault;
using kube::FaultKind;

// What one read may bring. Two of them and a TLS record are all that a connection ever holds.
constexpr std::size_t kReadBytes = 32 * 1024;

// Choice: eight times the largest header of an API server.
constexpr uint32_t kHeaderBytesMax = 64 * 1024;

using TlsStream = asio::ssl::stream<tcp::socket&>;

// The socket, encrypted or not, as one stream for the algorithms of Asio and Beast.
class Wire {
 public:
  using executor_type = tcp::socket::executor_type;
  using lowest_layer_type = tcp::socket::lowest_layer_type;

  explicit Wire(asio::io_context* io) : socket_(*io) {}

  executor_type get_executor() { return socket_.get_executor(); }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      const asio::mutable_buffer room(*asio::buffer_sequence_begin(buffers));
      tls_->async_read_some(room,
                            [this, room, handler = std::forward<Handler>(handler)](
                                error_code error, std::size_t count) mutable {
                              handler(error, error ? count : count + ReadArrived(room + count));
                            });
    } else {
      socket_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      socket_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }

  tcp::socket& socket() { return socket_; }

  const tcp::socket& socket() const { return socket_; }

  TlsStream& StartTls(asio::ssl::context& context) { return tls_.emplace(socket_, context); }

  // Null before StartTls.
  TlsStream* tls() { return tls_ ? &*tls_ : nullptr; }

 private:
  // Takes what came together with what was just read: TLS hands out one record at a time, which
  // may be one small event of many. Returns the bytes put into `room`. A failure shows again in the
  // next read.
  std::size_t ReadArrived(asio::mutable_buffer room) {
    SSL* const ssl = tls_->native_handle();
    std::size_t count = 0;
    std::size_t read = 0;
    while (count < room.size() && BIO_pending(SSL_get_rbio(ssl)) > 0) {
      if (SSL_read_ex(ssl, static_cast<char*>(room.data()) + count, room.size() - count, &read) !=
          1) {
        ERR_clear_error();
        break;
      }
      count += read;
    }
    return count;
  }

  tcp::socket socket_;
  std::optional<TlsStream> tls_;
};

enum class Phase {
  kNew,
  kResolving,
  kConnecting,
  kHandshaking,
  kSending,
  kHeader,
  kBody,
  kPaused,
  kIdle,
  kClosed,
};

const char* Doing(Phase phase) {
  switch (phase) {
    case Phase::kResolving:
      return "looking up";
    case Phase::kConnecting:
      return "connecting to";
    case Phase::kHandshaking:
      return "TLS handshake with";
    case Phase::kSending:
      return "sending to";
    case Phase::kHeader:
      return "waiting for the answer of";
    default:
      return "reading from";
  }
}

FaultKind Classify(Phase phase, const error_code& error) {
  if (error == asio::error::timed_out) {
    return FaultKind::kTimeout;  // the kernel gave up: keepalive or TCP_USER_TIMEOUT
  }
  if (error == asio::error::operation_aborted) {
    return FaultKind::kCancelled;
  }
  if (phase == Phase::kResolving) {
    return FaultKind::kDns;
  }
  if (phase == Phase::kConnecting) {
    return FaultKind::kRefused;
  }
  const bool is_cut = error == asio::ssl::error::stream_truncated || error == asio::error::eof;
  if (error.category() == asio::error::get_ssl_category() && !is_cut) {
    return FaultKind::kTls;
  }
  return phase == Phase::kBody ? FaultKind::kTruncated : FaultKind::kReset;
}

}  // namespace

class HttpConnection::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context* io, const ApiEndpoint& endpoint, std::shared_ptr<const TlsContext> tls)
      : endpoint_(endpoint),
        tls_(std::move(tls)),
        resolver_(*io),
        wire_(io),
        timer_(*io),
        chunk_(kReadBytes) {
    buffer_.reserve(kReadBytes);
  }

  void Begin(HttpExchange exchange) {
    LOCKSTEP_CHECK(phase_ == Phase::kNew || phase_ == Phase::kIdle,
                   "the connection is already in use");
    exchange_ = std::move(exchange);
    is_request_sent_ = false;
    if (phase_ == Phase::kIdle) {
      Send();
    } else {
      Resolve();
    }
  }

  void Resume() {
    if (phase_ == Phase::kPaused) {
      ReadBody();
    }
  }

  void Close(FaultKind kind, const std::string& why) {
    if (phase_ != Phase::kClosed) {
      Finish(Fault{kind, is_request_sent_, why});
    }
  }

  // For good, without a word to anybody.
  void Abandon() {
    exchange_.sink = nullptr;
    Shut();
  }

  bool IsReusable() const {
    char byte = 0;
    return phase_ == Phase::kIdle &&
           ::recv(const_cast<tcp::socket&>(wire_.socket()).native_handle(),
                  &byte,
                  1,
                  MSG_PEEK | MSG_DONTWAIT) == -1 &&
           errno == EAGAIN;
  }

 private:
  void Resolve() {
    Enter(Phase::kResolving, exchange_.limits.connect_timeout);
    error_code not_numeric;
    const auto address = asio::ip::make_address(endpoint_.host, not_numeric);
    if (!not_numeric) {
      Connect(std::array<tcp::endpoint, 1>{tcp::endpoint(address, endpoint_.port)});
      return;
    }
    resolver_.async_resolve(
        endpoint_.host,
        std::to_string(endpoint_.port),
        tcp::resolver::numeric_service,
        [self = shared_from_this()](error_code error, const tcp::resolver::results_type& found) {
          if (self->GoesOn(Phase::kResolving, error)) {
            self->Connect(found);
          }
        });
  }

  template <typename Addresses>
  void Connect(const Addresses& addresses) {
    phase_ = Phase::kConnecting;  // within the time of kResolving
    asio::async_connect(wire_.socket(),
                        addresses,
                        [self = shared_from_this()](error_code error, const tcp::endpoint&) {
                          if (self->GoesOn(Phase::kConnecting, error)) {
                            self->OnConnect();
                          }
                        });
  }

  void OnConnect() {
    SetLivenessOptions(wire_.socket().native_handle());
    if (tls_ == nullptr) {
      Send();
      return;
    }
    phase_ = Phase::kHandshaking;  // within the time of kResolving
    asio::ssl::context context(tls_->Share());
    TlsStream& stream = wire_.StartTls(context);
    if (Status expected = tls_->Expect(stream.native_handle(), endpoint_.host); !expected.ok()) {
      Finish(Fault{FaultKind::kTls, false, expected.error().ToString()});
      return;
    }
    stream.async_handshake(TlsStream::client, [self = shared_from_this()](error_code error) {
      if (self->GoesOn(Phase::kHandshaking, error)) {
        self->Send();
      }
    });
  }

  void Send() {
    Enter(Phase::kSending, exchange_.limits.first_byte_timeout);
    is_request_sent_ = true;
    sent_at_ = SteadyNow();
    asio::async_write(wire_,
                      asio::buffer(exchange_.request_text),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (self->GoesOn(Phase::kSending, error)) {
                          self->ReadHeader();
                        }
                      });
  }

  void ReadHeader() {
    Enter(Phase::kHeader, exchange_.limits.first_byte_timeout);
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMax);
    // Not boost::none: with it, Beast 1.74 refuses every reply that has a Content-Length.
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    http::async_read_header(
        wire_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
          if (self->GoesOn(Phase::kHeader, error)) {
            self->OnHeader();
          }
        });
  }

  void OnHeader() {
    const auto& header = parser_->get();
    if (exchange_.server_clock != nullptr) {
      const auto date = header[http::field::date];
      exchange_.server_clock->Note({date.data(), date.size()}, sent_at_, SteadyNow());
    }
    const auto retry_after = header[http::field::retry_after];
    exchange_.sink->OnStatus(static_cast<int>(header.result_int()),
                             ParseRetryAfter({retry_after.data(), retry_after.size()}));
    if (phase_ == Phase::kClosed) {
      return;  // by the sink
    }
    if (parser_->is_done()) {
      Finish(std::nullopt);
    } else {
      ReadBody();
    }
  }

  void ReadBody() {
    Enter(Phase::kBody, exchange_.limits.idle_timeout);
    parser_->get().body().data = chunk_.data();
    parser_->get().body().size = chunk_.size();
    http::async_read_some(
        wire_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
          self->OnBody(error ? error : self->ParseArrived());
        });
  }

  // Beast stops after each chunk, which may be one small event of many; and, told to be eager,
  // waits for the next one before it hands out the last.
  error_code ParseArrived() {
    error_code error;
    while (!error && buffer_.size() > 0 && !parser_->is_done()) {
      buffer_.consume(parser_->put(buffer_.data(), error));
    }
    return error == http::error::need_more ? error_code() : error;
  }

  void OnBody(error_code error) {
    if (phase_ != Phase::kBody) {
      return;
    }
    if (error == http::error::need_buffer) {
      error = {};  // what came is more than one portion
    }
    const std::size_t byte_count = chunk_.size() - parser_->get().body().size;
    StreamFlow flow = StreamFlow::kMore;
    if (byte_count > 0) {
      flow = exchange_.sink->OnBytes({chunk_.data(), byte_count});
    }
    if (phase_ == Phase::kClosed || !GoesOn(Phase::kBody, error)) {
      return;
    }
    if (parser_->is_done()) {
      Finish(std::nullopt);
    } else if (flow == StreamFlow::kStop) {
      Finish(Fault{FaultKind::kCancelled, true, "the caller stopped reading the response"});
    } else if (flow == StreamFlow::kPause) {
      phase_ = Phase::kPaused;
      limit_ = exchange_.deadline.value_or(TimePoint::max());
    } else {
      ReadBody();
    }
  }

  // What every completion asks first: false when the exchange is over, or now ends with `error`.
  bool GoesOn(Phase phase, error_code error) {
    if (phase_ != phase) {
      return false;  // closed since
    }
    if (error) {
      Finish(Fault{Classify(phase, error), is_request_sent_, Describe(phase, error)});
    }
    return !error;
  }

  std::string Describe(Phase phase, error_code error) {
    std::string text = std::string(Doing(phase)) + " " + Authority(endpoint_) + ": ";
    TlsStream* const tls = wire_.tls();
    const std::string problem = tls != nullptr ? VerificationProblem(tls->native_handle()) : "";
    return text + (problem.empty() || phase != Phase::kHandshaking ? error.message() : problem);
  }

  void Finish(const std::optional<Fault>& fault) {
    const auto self = shared_from_this();  // the sink may let go of the connection
    const bool is_kept = !fault && parser_ && parser_->keep_alive() && buffer_.size() == 0 &&
                         wire_.socket().is_open();
    if (is_kept) {
      phase_ = Phase::kIdle;
      limit_ = TimePoint::max();
    } else {
      Shut();
    }
    if (const auto sink = std::move(exchange_.sink); sink != nullptr) {
      sink->OnEnd(fault);
    }
  }

  void Shut() {
    phase_ = Phase::kClosed;
    error_code ignored;
    timer_.cancel(ignored);
    resolver_.cancel();
    wire_.socket().close(ignored);
  }

  void Enter(Phase phase, Duration timeout) {
    phase_ = phase;
    limit_ = SteadyNow() + timeout;
    if (exchange_.deadline) {
      limit_ = std::min(limit_, *exchange_.deadline);
    }
    if (limit_ < timer_set_for_) {
      SetTimer();
    }
  }

  // One timer runs for all limits: a limit that moves away, as it does with each read, is looked at
  // when the timer ends, and only one that comes nearer costs anything.
  void SetTimer() {
    timer_set_for_ = limit_;
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(limit_));
    timer_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) {
        self->OnTimer();
      }
    });
  }

  void OnTimer() {
    timer_set_for_ = TimePoint::max();
    if (phase_ == Phase::kClosed || limit_ == TimePoint::max()) {
      return;
    }
    if (limit_ > SteadyNow()) {
      SetTimer();
      return;
    }
    Finish(Fault{FaultKind::kTimeout,
                 is_request_sent_,
                 std::string(Doing(phase_)) + " " + Authority(endpoint_) + ": took too long"});
  }

  const ApiEndpoint endpoint_;
  const std::shared_ptr<const TlsContext> tls_;  // shared with all connections of its time
  HttpExchange exchange_;
  Phase phase_ = Phase::kNew;
  bool is_request_sent_ = false;
  TimePoint sent_at_{};
  TimePoint limit_ = TimePoint::max();
  TimePoint timer_set_for_ = TimePoint::max();
  tcp::resolver resolver_;
  Wire wire_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  std::vector<char> chunk_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
};

HttpConnection::HttpConnection(boost::asio::io_context* io,
                               const ApiEndpoint& endpoint,
                               std::shared_ptr<const TlsContext> tls)
    : impl_(std::make_shared<Impl>(io, endpoint, std::move(tls))) {}

HttpConnection::~HttpConnection() {
  impl_->Abandon();
}

void HttpConnection::Begin(HttpExchange exchange) {
  impl_->Begin(std::move(exchange));
}

void HttpConnection::Resume() {
  impl_->Resume();
}

void HttpConnection::Close(kube::FaultKind kind, const std::string& why) {
  impl_->Close(kind, why);
}

bool HttpConnection::IsReusable() const {
  return impl_->IsReusable();
}

}  // namespace lockstep::control
