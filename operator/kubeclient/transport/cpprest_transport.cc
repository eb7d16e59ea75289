#include "operator/kubeclient/transport/cpprest_transport.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/prng.h"
#include "operator/kubeclient/transport/call_collector.h"
#include "operator/kubeclient/transport/cpprest_exchange.h"
#include "operator/kubeclient/transport/request_text.h"

namespace lockstep::control {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using kube::Fault;
using kube::FaultKind;

constexpr const char* kClosing = "the transport is closing";

// How long the library may keep what was closed. Choice: it takes milliseconds, and more is no
// reason not to end.
constexpr auto kReleaseMax = std::chrono::seconds(2);

// Runs on the strand, and outlives the transport if the library does not let go of it in time.
class Core final : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(TransportOptions options)
      : options_(std::move(options)),
        strand_(CpprestThreads().get_executor()),
        sweep_timer_(CpprestThreads()),
        resolver_(CpprestThreads()),
        prng_(std::stoull(RandomHex(8), nullptr, 16)),
        signal_(std::make_shared<ReleaseSignal>()),
        released_(signal_->all_released.get_future()) {
    lanes_[CallLane::kShared].calls_max = options_.connections_max;
    lanes_[CallLane::kLease].calls_max = 1;
  }

  // Thread: any.
  template <typename Task>
  void Post(Task task) {
    ++posted_count_;
    asio::post(strand_, [self = shared_from_this(), task = std::move(task)]() mutable {
      task();
      --self->posted_count_;
    });
  }

  // Ends everything and returns when no callback runs any more, and the library has none left to
  // run: at the end of the process it would forget those, with all that they hold. Thread: any but
  // the library's.
  void StopAndWait() {
    Post([this] { Stop(); });
    do {  // what callbacks began while everything ended is answered too
      std::promise<void> reached;
      asio::post(strand_, [&] { reached.set_value(); });
      reached.get_future().wait();
    } while (posted_count_ > 0);
    released_.wait_for(kReleaseMax);
  }

  void StartCall(kube::Request request, const CallOptions& options, Transport::Done done);
  void OpenStream(StreamId id,
                  kube::Request request,
                  const StreamOptions& options,
                  std::shared_ptr<StreamSink> sink);
  void Resume(StreamId id);
  void Cancel(StreamId id);
  void RunAfter(Duration delay, std::function<void()> task);
  void Sweep();

 private:
  // A call, from StartCall to its answer: waiting -> running.
  struct Call {
    kube::Request request;
    CallOptions options;
    TimePoint deadline{};
    Transport::Done done;
    uint64_t credentials_version = 0;
    std::shared_ptr<CpprestExchange> exchange;     // null while it waits
    std::shared_ptr<asio::steady_timer> patience;  // runs while it waits
  };

  // The connections of a lane stand in one client, which is replaced when they are too old.
  struct Lane {
    int calls_max = 0;
    std::shared_ptr<CpprestClient> client;  // shared with its exchanges
    TimePoint renew_at{};
    TimePoint used_at{};
    std::deque<std::shared_ptr<Call>> waiting;
    std::set<std::shared_ptr<Call>> running;
  };

  class Relay;

  void Dispatch(Lane* lane);
  void Launch(Lane* lane, const std::shared_ptr<Call>& call);
  void GiveUpWaiting(const std::shared_ptr<Call>& call);
  void CallEnded(const std::shared_ptr<Call>& call, kube::CallResult result);
  std::shared_ptr<CpprestClient> NewClient() const;
  std::shared_ptr<CpprestClient> ClientOf(Lane* lane);
  void Send(const std::shared_ptr<CpprestExchange>& exchange,
            const kube::Request& request,
            const std::shared_ptr<const CredentialSnapshot>& credentials,
            Lane* lane);
  void WithAddress(const std::shared_ptr<CpprestExchange>& exchange, std::function<void()> next);
  void RefreshTls();
  void Stop();

  const TransportOptions options_;
  CpprestStrand strand_;
  asio::steady_timer sweep_timer_;
  tcp::resolver resolver_;
  Prng prng_;
  std::atomic<int> posted_count_{0};
  bool is_stopping_ = false;
  std::string address_;                  // of the endpoint; empty: not known
  std::optional<TlsMaterial> tls_;       // in use
  std::optional<uint64_t> tls_version_;  // the last one that was tried
  std::string tls_problem_;              // why that one did not do
  std::map<CallLane, Lane> lanes_;
  std::map<StreamId, std::shared_ptr<CpprestExchange>> streams_;
  std::set<std::shared_ptr<asio::steady_timer>> tasks_;
  std::shared_ptr<ReleaseSignal> signal_;  // shared with the exchanges; null: no more of them
  std::future<void> released_;             // by all of them
};

// Between a stream's exchange and its sink.
class Core::Relay final : public StreamSink {
 public:
  Relay(std::shared_ptr<Core> core, StreamId id, uint64_t version, std::shared_ptr<StreamSink> sink)
      : core_(std::move(core)), id_(id), version_(version), sink_(std::move(sink)) {}

  void OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) override {
    if (http_status == kube::kHttpUnauthorized) {
      core_->options_.credentials->ReportRefused(version_);
    }
    sink_->OnStatus(http_status, retry_after);
  }

  StreamFlow OnBytes(std::string_view bytes) override { return sink_->OnBytes(bytes); }

  void OnEnd(const std::optional<Fault>& fault) override {
    core_->streams_.erase(id_);
    if (fault && fault->kind == FaultKind::kRefused) {
      core_->address_.clear();
    }
    sink_->OnEnd(fault);
  }

 private:
  const std::shared_ptr<Core> core_;
  const StreamId id_;
  const uint64_t version_;
  const std::shared_ptr<StreamSink> sink_;  // shared with who opened the stream
};

void Core::StartCall(kube::Request request, const CallOptions& options, Transport::Done done) {
  if (is_stopping_) {
    done(Fault{FaultKind::kCancelled, false, kClosing});
    return;
  }
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->options = options;
  call->deadline = SteadyNow() + options.total_timeout;
  call->done = std::move(done);
  call->patience = std::make_shared<asio::steady_timer>(CpprestThreads(), call->deadline);
  Lane& lane = lanes_[options.lane];
  lane.waiting.push_back(call);
  Dispatch(&lane);
  if (call->exchange == nullptr) {
    call->patience->async_wait(
        asio::bind_executor(strand_, [self = shared_from_this(), call](error_code cancelled) {
          if (!cancelled) {
            self->GiveUpWaiting(call);
          }
        }));
  }
}

void Core::GiveUpWaiting(const std::shared_ptr<Call>& call) {
  auto& waiting = lanes_[call->options.lane].waiting;
  if (const auto found = std::find(waiting.begin(), waiting.end(), call); found != waiting.end()) {
    waiting.erase(found);
    call->done(Fault{FaultKind::kTimeout, false, "no connection became free in time"});
  }
}

void Core::Dispatch(Lane* lane) {
  RefreshTls();
  while (!is_stopping_ && !lane->waiting.empty() &&
         static_cast<int>(lane->running.size()) < lane->calls_max) {
    const auto call = lane->waiting.front();
    lane->waiting.pop_front();
    Launch(lane, call);
  }
}

void Core::Launch(Lane* lane, const std::shared_ptr<Call>& call) {
  call->patience->cancel();
  lane->running.insert(call);
  const auto credentials = options_.credentials->Current();
  call->credentials_version = credentials->version;
  const auto self = shared_from_this();
  const auto collector = std::make_shared<CallCollector>(
      call->options.body_bytes_max,
      CallCollector::Hooks{
          [self, version = credentials->version] {
            self->options_.credentials->ReportRefused(version);
          },
          [self, call](kube::CallResult result) { self->CallEnded(call, std::move(result)); }});
  const CallOptions& options = call->options;
  call->exchange = std::make_shared<CpprestExchange>(
      strand_,
      signal_,
      StreamOptions{options.connect_timeout, options.first_byte_timeout, options.total_timeout},
      call->deadline,
      collector);
  Send(call->exchange, call->request, credentials, lane);
}

void Core::CallEnded(const std::shared_ptr<Call>& call, kube::CallResult result) {
  Lane& lane = lanes_[call->options.lane];
  lane.running.erase(call);
  lane.used_at = SteadyNow();
  if (const auto* fault = std::get_if<Fault>(&result);
      fault != nullptr && fault->kind == FaultKind::kRefused) {
    address_.clear();  // the name may lead elsewhere by now
  }
  call->done(std::move(result));
  call->exchange = nullptr;
  Dispatch(&lane);
}

void Core::OpenStream(StreamId id,
                      kube::Request request,
                      const StreamOptions& options,
                      std::shared_ptr<StreamSink> sink) {
  RefreshTls();
  if (is_stopping_) {
    sink->OnEnd(Fault{FaultKind::kCancelled, false, kClosing});
    return;
  }
  const auto credentials = options_.credentials->Current();
  const auto exchange = std::make_shared<CpprestExchange>(
      strand_,
      signal_,
      options,
      std::nullopt,
      std::make_shared<Relay>(shared_from_this(), id, credentials->version, std::move(sink)));
  streams_[id] = exchange;
  Send(exchange, request, credentials, nullptr);
}

// `lane` is null for a stream, which has a client of its own.
void Core::Send(const std::shared_ptr<CpprestExchange>& exchange,
                const kube::Request& request,
                const std::shared_ptr<const CredentialSnapshot>& credentials,
                Lane* lane) {
  exchange->Begin();
  if (options_.endpoint.is_tls && !tls_) {
    exchange->Close(FaultKind::kTls, tls_problem_);
    return;
  }
  WithAddress(exchange, [self = shared_from_this(), exchange, request, credentials, lane] {
    try {
      exchange->Send(lane != nullptr ? self->ClientOf(lane) : self->NewClient(),
                     MakeCpprestRequest(self->options_, request, *credentials),
                     self->options_.server_clock);
    } catch (const std::exception& failure) {
      exchange->Close(FaultKind::kReset, failure.what());
    }
  });
}

void Core::WithAddress(const std::shared_ptr<CpprestExchange>& exchange,
                       std::function<void()> next) {
  if (IsNumericAddress(options_.endpoint.host)) {
    address_ = options_.endpoint.host;
  }
  if (!address_.empty()) {
    next();
    return;
  }
  resolver_.async_resolve(
      tcp::v4(),  // the library cannot connect to IPv6
      options_.endpoint.host,
      std::to_string(options_.endpoint.port),
      asio::bind_executor(strand_,
                          [self = shared_from_this(), exchange, next = std::move(next)](
                              error_code error, const tcp::resolver::results_type& found) {
                            if (exchange->has_ended()) {
                              return;
                            }
                            if (error || found.empty()) {
                              exchange->Close(FaultKind::kDns,
                                              self->options_.endpoint.host + ": address not found");
                            } else {
                              self->address_ = found.begin()->endpoint().address().to_string();
                              next();
                            }
                          }));
}

std::shared_ptr<CpprestClient> Core::NewClient() const {
  return std::make_shared<CpprestClient>(
      MakeCpprestClient(options_.endpoint, address_, tls_.value_or(TlsMaterial{})));
}

std::shared_ptr<CpprestClient> Core::ClientOf(Lane* lane) {
  const TimePoint now = SteadyNow();
  const bool is_idle =
      lane->running.size() <= 1 && now - lane->used_at >= options_.connection_idle_max;
  if (lane->client == nullptr || now >= lane->renew_at || is_idle) {
    lane->client = NewClient();
    const double spread = 0.8 + 0.4 * prng_.Unit();
    lane->renew_at =
        now + std::chrono::duration_cast<Duration>(options_.connection_age_max * spread);
  }
  lane->used_at = now;
  return lane->client;
}

void Core::Resume(StreamId id) {
  if (const auto found = streams_.find(id); found != streams_.end()) {
    const auto exchange = found->second;
    exchange->Resume();
  }
}

void Core::Cancel(StreamId id) {
  if (const auto found = streams_.find(id); found != streams_.end()) {
    const auto exchange = found->second;
    exchange->Close(FaultKind::kCancelled, "cancelled");
  }
}

void Core::RunAfter(Duration delay, std::function<void()> task) {
  if (is_stopping_ || delay <= Duration::zero()) {  // then on the strand already, in its turn
    return is_stopping_ ? void() : task();
  }
  const auto timer = std::make_shared<asio::steady_timer>(CpprestThreads(), delay);
  tasks_.insert(timer);
  timer->async_wait(asio::bind_executor(
      strand_, [self = shared_from_this(), timer, task = std::move(task)](error_code cancelled) {
        self->tasks_.erase(timer);
        if (!cancelled && !self->is_stopping_) {
          task();
        }
      }));
}

// As in the other transport: what cannot be used changes nothing.
void Core::RefreshTls() {
  const auto credentials = options_.credentials->Current();
  if (!options_.endpoint.is_tls || tls_version_ == credentials->tls_version || is_stopping_) {
    return;
  }
  tls_version_ = credentials->tls_version;
  if (const auto made = TlsContext::Make(credentials->tls); !made.ok()) {
    tls_problem_ = made.error().ToString();
    options_.logger->Error("cannot use new certificates", {{"error", tls_problem_}});
    return;
  }
  tls_ = credentials->tls;
  for (auto& [name, lane] : lanes_) {
    lane.client = nullptr;  // calls under way keep it to their end
  }
  const auto streams = streams_;  // those that end leave the list
  for (const auto& [id, exchange] : streams) {
    exchange->Close(FaultKind::kReset, "the certificates have changed");
  }
}

void Core::Sweep() {
  RefreshTls();
  const TimePoint now = SteadyNow();
  for (auto& [name, lane] : lanes_) {
    if (lane.running.empty() && now - lane.used_at >= options_.connection_idle_max) {
      lane.client = nullptr;
    }
  }
  sweep_timer_.expires_after(options_.sweep_period);
  sweep_timer_.async_wait(
      asio::bind_executor(strand_, [self = shared_from_this()](error_code cancelled) {
        if (!cancelled && !self->is_stopping_) {
          self->Sweep();
        }
      }));
}

void Core::Stop() {
  is_stopping_ = true;
  sweep_timer_.cancel();
  resolver_.cancel();
  for (auto& [name, lane] : lanes_) {
    const auto waiting = std::exchange(lane.waiting, {});
    for (const auto& call : waiting) {
      call->patience->cancel();
      call->done(Fault{FaultKind::kCancelled, false, kClosing});
    }
    const auto running = lane.running;  // those that end leave the list
    for (const auto& call : running) {
      const auto exchange = call->exchange;
      exchange->Close(FaultKind::kCancelled, kClosing);
    }
    lane.client = nullptr;
  }
  const auto streams = streams_;
  for (const auto& [id, exchange] : streams) {
    exchange->Close(FaultKind::kCancelled, kClosing);
  }
  for (const auto& timer : tasks_) {
    timer->cancel();
  }
  signal_ = nullptr;
}

class CpprestTransport final : public Transport {
 public:
  explicit CpprestTransport(TransportOptions options)
      : core_(std::make_shared<Core>(std::move(options))) {
    core_->Post([core = core_] { core->Sweep(); });
  }

  ~CpprestTransport() override { core_->StopAndWait(); }

  CpprestTransport(const CpprestTransport&) = delete;
  CpprestTransport& operator=(const CpprestTransport&) = delete;

  void StartCall(kube::Request request, const CallOptions& options, Done done) override {
    core_->Post([core = core_, request = std::move(request), options, done = std::move(done)] {
      core->StartCall(request, options, done);
    });
  }

  StreamId OpenStream(kube::Request request,
                      const StreamOptions& options,
                      std::shared_ptr<StreamSink> sink) override {
    const StreamId id(++last_stream_);
    core_->Post([core = core_, id, request = std::move(request), options, sink = std::move(sink)] {
      core->OpenStream(id, request, options, sink);
    });
    return id;
  }

  void Resume(StreamId id) override {
    core_->Post([core = core_, id] { core->Resume(id); });
  }

  void Cancel(StreamId id) override {
    core_->Post([core = core_, id] { core->Cancel(id); });
  }

  void RunAfter(Duration delay, std::function<void()> task) override {
    core_->Post([core = core_, delay, task = std::move(task)] { core->RunAfter(delay, task); });
  }

 private:
  const std::shared_ptr<Core> core_;  // shared with the library's callbacks
  std::atomic<int64_t> last_stream_{0};
};

}  // namespace

Result<std::unique_ptr<Transport>> MakeCpprestTransport(TransportOptions options) {
  // The library raises it for a failure that nobody asked about, such as that of a request which
  // was given up in the same moment. That is no reason to end.
  std::signal(SIGTRAP, SIG_IGN);
  LOCKSTEP_CHECK(options.credentials != nullptr && options.logger != nullptr,
                 "a transport needs credentials and a logger");
  if (options.endpoint.host.find(':') != std::string::npos) {
    return Error(ErrorCode::kInvalidArgument, "cpprestsdk cannot connect to an IPv6 address");
  }
  std::set<std::string> names;
  for (const auto& [name, value] : options.credentials->Current()->headers) {
    if (!names.insert(name).second) {
      return Error(ErrorCode::kInvalidArgument, "cpprestsdk cannot send two headers " + name);
    }
  }
  return std::unique_ptr<Transport>(std::make_unique<CpprestTransport>(std::move(options)));
}

}  // namespace lockstep::control
