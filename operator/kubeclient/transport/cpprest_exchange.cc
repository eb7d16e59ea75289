#include "operator/kubeclient/transport/cpprest_exchange.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <utility>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cpprest/producerconsumerstream.h>
#include <openssl/ssl.h>
#include <pplx/threadpool.h>

#include "common/base/check.h"
#include "common/base/io/signals_blocked.h"
#include "common/base/io/socket_liveness.h"
#include "operator/kubeclient/transport/request_text.h"

namespace lockstep::control {
namespace {

namespace asio = boost::asio;
namespace rest = web::http;
using asio::ip::tcp;
using boost::system::error_code;
using kube::Fault;
using kube::FaultKind;

// Source: measured; forty threads cost five times the CPU of two on one stream.
constexpr std::size_t kThreads = 2;

constexpr std::size_t kReadBytes = 64 * 1024;

// The library has one time-out for every phase; ours are set by a timer of our own.
constexpr auto kNever = std::chrono::hours(24);

// Errors of OpenSSL are above all others that the library reports.
constexpr int kTlsErrorMin = 1 << 24;

// Where in a context's ex_data the flag stands that says it has connected.
int ConnectedIndex() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

void OnTlsEvent(const SSL* connection, int event, int) {
  if ((event & SSL_CB_HANDSHAKE_DONE) != 0) {
    auto* const flag = static_cast<std::atomic<bool>*>(
        SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), ConnectedIndex()));
    *flag = true;
  }
}

// The library shows a socket that is not open yet; options need an open one.
void OpenWithOptions(tcp::socket* socket) {
  error_code error;
  if (!socket->is_open()) {
    socket->open(tcp::v4(), error);
  }
  if (!error) {
    SetLivenessOptions(socket->native_handle());
  }
}

// A body that can be read once: what cannot be rewound is not sent a second time, which the library
// would do by itself when a pooled connection turns out to be dead.
concurrency::streams::istream ReadOnce(const std::string& body) {
  concurrency::streams::producer_consumer_buffer<uint8_t> buffer;
  buffer.putn_nocopy(reinterpret_cast<const uint8_t*>(body.data()), body.size()).wait();  // copies
  buffer.close(std::ios_base::out).wait();
  return buffer.create_istream();
}

bool StartsWith(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [text](std::string_view prefix) {
    return text.starts_with(prefix);
  });
}

}  // namespace

asio::io_context& CpprestThreads() {
  static std::once_flag once;
  std::call_once(once, [] {
    const SignalsBlocked blocked;  // inherited by the threads
    crossplat::threadpool::initialize_with_threads(kThreads);
  });
  return crossplat::threadpool::shared_instance().service();
}

CpprestClient MakeCpprestClient(const ApiEndpoint& endpoint,
                                const std::string& address,
                                const TlsMaterial& tls) {
  CpprestThreads();
  CpprestClient client;
  client.has_connected = std::make_shared<std::atomic<bool>>(!endpoint.is_tls);
  const std::string& name = tls.server_name.empty() ? endpoint.host : tls.server_name;
  rest::client::http_client_config config;
  config.set_timeout(kNever);
  config.set_max_redirects(0);
  config.set_chunksize(kReadBytes);
  config.set_validate_certificates(tls.verifies_server);
  config.set_tlsext_sni_enabled(!IsNumericAddress(name));
  config.set_ssl_context_callback(
      [tls, name, flag = client.has_connected](asio::ssl::context& context) {
        SSL_CTX* const native = context.native_handle();
        // The library's own check of the name also believes a common name.
        Status status = ConfigureTls(native, tls);
        if (status.ok()) {
          status = ExpectPeer(SSL_CTX_get0_param(native), name);
        }
        if (!status.ok()) {
          throw rest::http_exception("Error in SSL handshake: " + status.error().ToString());
        }
        SSL_CTX_set_ex_data(native, ConnectedIndex(), flag.get());
        SSL_CTX_set_info_callback(native, &OnTlsEvent);
      });
  if (endpoint.is_tls) {
    config.set_nativehandle_options([](rest::client::native_handle handle) {
      OpenWithOptions(&static_cast<asio::ssl::stream<tcp::socket&>*>(handle)->next_layer());
    });
  } else {
    config.set_nativehandle_options([](rest::client::native_handle handle) {
      OpenWithOptions(static_cast<tcp::socket*>(handle));
    });
  }
  ApiEndpoint numeric = endpoint;
  numeric.host = address;
  numeric.base_path.clear();  // stands in each request
  client.http = std::make_unique<rest::client::http_client>(numeric.Url(), config);
  return client;
}

rest::http_request MakeCpprestRequest(const TransportOptions& options,
                                      const kube::Request& request,
                                      const CredentialSnapshot& credentials) {
  rest::http_request made(request.method);
  made.set_request_uri(web::uri(options.endpoint.base_path + request.target));
  made.headers().add("User-Agent", options.user_agent);
  made.headers().add("Accept", "application/json");
  for (const auto& [name, value] : credentials.headers) {
    made.headers().add(name, value);
  }
  const std::string& name =
      credentials.tls.server_name.empty() ? options.endpoint.host : credentials.tls.server_name;
  if (!IsNumericAddress(name)) {
    made.headers().add("Host", name);  // and by it the name that TLS expects
  }
  if (!request.body.empty() || request.is_mutating()) {
    made.set_body(ReadOnce(request.body), request.body.size(), request.content_type);
    if (request.content_type.empty()) {
      made.headers().remove("Content-Type");
    }
  }
  return made;
}

// What the library writes a reply's body into: each write is over when the sink has taken it.
class CpprestExchange::Buffer final
    : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  explicit Buffer(std::shared_ptr<CpprestExchange> owner)
      : streambuf_state_manager(std::ios_base::out), owner_(std::move(owner)) {}

  // The library gives the connection back and then forgets the request, and us with it.
  ~Buffer() override {
    asio::post(owner_->strand_, [owner = owner_] { owner->OnReleased(); });
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  static concurrency::streams::ostream Stream(std::shared_ptr<CpprestExchange> owner) {
    struct Handle : concurrency::streams::streambuf<uint8_t> {
      explicit Handle(std::shared_ptr<Buffer> buffer)
          : concurrency::streams::streambuf<uint8_t>(std::move(buffer)) {}
    };

    return Handle(std::make_shared<Buffer>(std::move(owner))).create_ostream();
  }

  bool can_seek() const override { return false; }

  bool has_size() const override { return false; }

  std::size_t buffer_size(std::ios_base::openmode) const override { return 0; }

  void set_buffer_size(std::size_t, std::ios_base::openmode) override {}

  std::size_t in_avail() const override { return 0; }

  pos_type getpos(std::ios_base::openmode) const override { return traits::eof(); }

  pos_type seekpos(pos_type, std::ios_base::openmode) override { return traits::eof(); }

  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return traits::eof();
  }

  bool acquire(uint8_t*&, std::size_t&) override { return false; }

  void release(uint8_t*, std::size_t) override {}

 protected:
  using streambuf_state_manager::_putn;

  pplx::task<std::size_t> _putn(const uint8_t* bytes, std::size_t count) override {
    Put put{bytes, count, {}};
    const auto taken = pplx::create_task(put.taken);
    asio::post(owner_->strand_, [owner = owner_, put] { owner->OnPut(put); });
    return taken;
  }

  pplx::task<int_type> _putc(uint8_t byte) override {
    auto copy = std::make_shared<uint8_t>(byte);
    return _putn(copy.get(), 1).then([copy](std::size_t) { return int_type(*copy); });
  }

  // Nobody reads from here.
  pplx::task<int_type> _bumpc() override { return End(); }

  int_type _sbumpc() override { return traits::eof(); }

  pplx::task<int_type> _getc() override { return End(); }

  int_type _sgetc() override { return traits::eof(); }

  pplx::task<int_type> _nextc() override { return End(); }

  pplx::task<int_type> _ungetc() override { return End(); }

  pplx::task<std::size_t> _getn(uint8_t*, std::size_t) override {
    return pplx::task_from_result<std::size_t>(0);
  }

  std::size_t _scopy(uint8_t*, std::size_t) override { return 0; }

  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }

  uint8_t* _alloc(std::size_t) override { return nullptr; }

  void _commit(std::size_t) override {}

 private:
  static pplx::task<int_type> End() { return pplx::task_from_result<int_type>(traits::eof()); }

  const std::shared_ptr<CpprestExchange> owner_;  // shared with the strand's handlers
};

CpprestExchange::CpprestExchange(const CpprestStrand& strand,
                                 std::shared_ptr<ReleaseSignal> signal,
                                 const StreamOptions& limits,
                                 std::optional<TimePoint> deadline,
                                 std::shared_ptr<StreamSink> sink)
    : strand_(strand),
      signal_(std::move(signal)),
      limits_(limits),
      deadline_(deadline),
      sink_(std::move(sink)),
      timer_(CpprestThreads()) {}

void CpprestExchange::Begin() {
  SetLimit(limits_.connect_timeout);
}

void CpprestExchange::Send(std::shared_ptr<CpprestClient> client,
                           rest::http_request request,
                           ServerClock* clock) {
  client_ = std::move(client);
  server_clock_ = clock;
  sent_at_ = SteadyNow();
  const auto self = shared_from_this();
  request.set_response_stream(Buffer::Stream(self));
  request.set_progress_handler(
      [weak = weak_from_this()](rest::message_direction::direction direction, utility::size64_t) {
        const auto exchange = weak.lock();
        if (exchange != nullptr && direction == rest::message_direction::upload &&
            !exchange->is_sent_.exchange(true)) {
          asio::post(exchange->strand_, [exchange] { exchange->OnUploaded(); });
        }
      });
  client_->http->request(request, cancel_.get_token())
      .then([self](const pplx::task<rest::http_response>& task) {
        asio::post(self->strand_, [self, task] { self->OnHeader(task); });
      });
}

void CpprestExchange::Resume() {
  if (!has_ended() && is_paused_ && held_) {
    is_paused_ = false;
    Put put = *std::move(held_);
    held_.reset();
    SetLimit(limits_.idle_timeout);
    // What was taken already is let go; the next bytes come from the library.
    put.taken.set(put.count);
  }
}

void CpprestExchange::Close(FaultKind kind, const std::string& why) {
  if (!has_ended()) {
    Finish(Fault{kind, MayHaveBeenSent(), why});
  }
}

// The header of the request has left.
void CpprestExchange::OnUploaded() {
  if (!has_ended() && !has_header_) {
    SetLimit(limits_.first_byte_timeout);
  }
}

void CpprestExchange::OnHeader(const pplx::task<rest::http_response>& task) {
  try {
    const rest::http_response response = task.get();  // has ended: does not wait
    const auto self = shared_from_this();
    // Asked for in any case: an error that nobody looks at ends the process.
    response.content_ready().then([self](const pplx::task<rest::http_response>& complete) {
      asio::post(self->strand_, [self, complete] { self->OnComplete(complete); });
    });
    if (has_ended()) {
      return;
    }
    has_header_ = true;
    SetLimit(limits_.idle_timeout);
    const auto date = response.headers().find("Date");
    if (server_clock_ != nullptr && date != response.headers().end()) {
      server_clock_->Note(date->second, sent_at_, SteadyNow());
    }
    const auto retry_after = response.headers().find("Retry-After");
    sink_->OnStatus(response.status_code(),
                    retry_after == response.headers().end() ? std::nullopt
                                                            : ParseRetryAfter(retry_after->second));
    if (!has_ended() && held_) {
      Put put = *std::move(held_);
      held_.reset();
      Deliver(std::move(put));
    }
  } catch (const rest::http_exception& failure) {
    Fail(failure);
  } catch (const std::exception& failure) {
    Fail(rest::http_exception(failure.what()));
  }
}

void CpprestExchange::OnPut(Put put) {
  if (has_ended()) {
    put.taken.set(put.count);  // lets the library find out that its socket is closed
  } else if (!has_header_) {
    held_ = std::move(put);
  } else {
    Deliver(std::move(put));
  }
}

void CpprestExchange::Deliver(Put put) {
  const StreamFlow flow = sink_->OnBytes({reinterpret_cast<const char*>(put.bytes), put.count});
  if (has_ended() || flow == StreamFlow::kMore) {
    SetLimit(limits_.idle_timeout);
    put.taken.set(put.count);
  } else if (flow == StreamFlow::kPause) {
    is_paused_ = true;
    held_ = std::move(put);
    limit_ = deadline_.value_or(TimePoint::max());
  } else {
    held_ = std::move(put);
    Close(FaultKind::kCancelled, "the caller stopped reading the response");
  }
}

void CpprestExchange::OnReleased() {
  is_released_ = true;
  EndIfReleased();
}

// Only then: whoever calls next finds the connection, instead of opening one more.
void CpprestExchange::EndIfReleased() {
  if (is_complete_ && is_released_ && !has_ended()) {
    Finish(std::nullopt);
  }
}

void CpprestExchange::OnComplete(const pplx::task<rest::http_response>& task) {
  try {
    task.get();
    is_complete_ = true;
    EndIfReleased();
  } catch (const rest::http_exception& failure) {
    Fail(failure);
  } catch (const std::exception& failure) {
    Fail(rest::http_exception(failure.what()));
  }
}

// The library keeps of an error its number and a fixed text; the texts are those of 2.10.18.
void CpprestExchange::Fail(const rest::http_exception& failure) {
  if (has_ended()) {
    return;
  }
  const std::string_view text = failure.what();
  const int number = failure.error_code().value();
  const bool is_slow = number == ETIMEDOUT;
  Fault fault{FaultKind::kReset, true, std::string(text)};
  if (StartsWith(text, {"Error resolving", "Failed to resolve"})) {
    fault = {FaultKind::kDns, false, std::string(text)};
  } else if (StartsWith(text, {"Failed to connect"})) {
    fault = {is_slow ? FaultKind::kTimeout : FaultKind::kRefused, false, std::string(text)};
  } else if (StartsWith(text, {"Error in SSL handshake"})) {
    const bool is_cut = number == ECONNRESET || number == EPIPE;
    fault = {is_slow  ? FaultKind::kTimeout
             : is_cut ? FaultKind::kReset
                      : FaultKind::kTls,
             false,
             std::string(text)};
  } else if (is_slow) {
    fault.kind = FaultKind::kTimeout;
  } else if (number >= kTlsErrorMin) {
    fault.kind = FaultKind::kTls;
  } else if (has_header_) {
    fault.kind = FaultKind::kTruncated;
  }
  Finish(fault);
}

void CpprestExchange::Finish(const std::optional<Fault>& fault) {
  const auto self = shared_from_this();
  const auto sink = std::move(sink_);
  sink_ = nullptr;
  error_code ignored;
  timer_.cancel(ignored);
  if (fault) {
    cancel_.cancel();
  }
  if (held_) {
    Put put = *std::move(held_);
    held_.reset();
    put.taken.set(put.count);
  }
  sink->OnEnd(fault);
}

void CpprestExchange::SetLimit(Duration timeout) {
  limit_ = SteadyNow() + timeout;
  if (deadline_) {
    limit_ = std::min(limit_, *deadline_);
  }
  WaitForLimit();
}

void CpprestExchange::WaitForLimit() {
  if (has_ended() || limit_ == TimePoint::max()) {
    return;
  }
  timer_.expires_at(limit_);
  timer_.async_wait(asio::bind_executor(strand_, [weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || self == nullptr || self->has_ended() || self->limit_ > SteadyNow()) {
      return;
    }
    self->Finish(Fault{FaultKind::kTimeout, self->MayHaveBeenSent(), "the server took too long"});
  }));
}

// Before the library says that it has sent the header, the request may be on its way all the same,
// if there was a connection.
bool CpprestExchange::MayHaveBeenSent() const {
  return is_sent_ || (client_ != nullptr && *client_->has_connected);
}

}  // namespace lockstep::control
