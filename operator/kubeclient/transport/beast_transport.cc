#include "operator/kubeclient/transport/beast_transport.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/io/signals_blocked.h"
#include "common/base/prng.h"
#include "operator/kubeclient/transport/call_collector.h"
#include "operator/kubeclient/transport/http_connection.h"
#include "operator/kubeclient/transport/request_text.h"

namespace lockstep::control {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using kube::Fault;
using kube::FaultKind;

class BeastTransport final : public Transport {
 public:
  explicit BeastTransport(TransportOptions options);
  ~BeastTransport() override;

  BeastTransport(const BeastTransport&) = delete;
  BeastTransport& operator=(const BeastTransport&) = delete;

  void StartCall(kube::Request request, const CallOptions& options, Done done) override;
  StreamId OpenStream(kube::Request request,
                      const StreamOptions& options,
                      std::shared_ptr<StreamSink> sink) override;
  void Resume(StreamId id) override;
  void Cancel(StreamId id) override;
  void RunAfter(Duration delay, std::function<void()> task) override;

 private:
  struct Call;
  class Stream;

  // A connection for calls, and how long it may be used.
  struct Pooled {
    std::unique_ptr<HttpConnection> connection;
    TimePoint renew_at{};
    TimePoint idle_since{};
    uint64_t tls_version = 0;
  };

  struct Lane {
    int connections_max = 0;
    int open_count = 0;        // with those in use
    std::vector<Pooled> idle;  // the one used last at the end: it is used next
    std::deque<std::shared_ptr<Call>> waiting;
    std::set<std::shared_ptr<Call>> running;
  };

  // All below runs on the thread.
  void Enqueue(const std::shared_ptr<Call>& call);
  void Dispatch(Lane* lane);
  void Launch(Lane* lane, const std::shared_ptr<Call>& call, Pooled pooled);
  void GiveUpWaiting(const std::shared_ptr<Call>& call);
  void CallEnded(const std::shared_ptr<Call>& call, kube::CallResult result);
  void Launch(const std::shared_ptr<Stream>& stream);
  bool IsUsable(const Pooled& pooled, TimePoint now) const;
  Result<Pooled> Connect();
  void RefreshTls();
  void Sweep();
  void Stop();

  const TransportOptions options_;
  std::atomic<int64_t> last_stream_{0};

  Prng prng_;
  bool is_stopping_ = false;
  std::shared_ptr<const TlsContext> tls_;  // shared with the connections that were made with it
  std::optional<uint64_t> tls_version_;    // the last one that was tried
  std::string tls_problem_;                // why that one did not do

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer sweep_timer_{io_};
  std::set<std::shared_ptr<asio::steady_timer>> tasks_;
  std::map<CallLane, Lane> lanes_;
  std::map<StreamId, std::shared_ptr<Stream>> streams_;
  std::thread thread_;  // last: it uses everything above
};

// A call, from StartCall to its answer: waiting -> running.
struct BeastTransport::Call {
  Call(asio::io_context* io, kube::Request wanted, const CallOptions& call_options, Done on_done)
      : request(std::move(wanted)),
        options(call_options),
        deadline(SteadyNow() + call_options.total_timeout),
        done(std::move(on_done)),
        patience(*io) {}

  const kube::Request request;
  const CallOptions options;
  const TimePoint deadline;
  const Done done;
  asio::steady_timer patience;  // runs while the call waits for a connection
  Pooled pooled;                // while it runs
};

// A streamed call: passes on what comes, and leaves the list when it ends.
class BeastTransport::Stream final : public StreamSink,
                                     public std::enable_shared_from_this<Stream> {
 public:
  Stream(BeastTransport* transport,
         StreamId id,
         kube::Request request,
         const StreamOptions& options,
         std::shared_ptr<StreamSink> sink)
      : transport_(transport),
        id_(id),
        request_(std::move(request)),
        options_(options),
        sink_(std::move(sink)) {}

  void OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) override {
    if (http_status == kube::kHttpUnauthorized) {
      transport_->options_.credentials->ReportRefused(credentials_version_);
    }
    sink_->OnStatus(http_status, retry_after);
  }

  StreamFlow OnBytes(std::string_view bytes) override { return sink_->OnBytes(bytes); }

  void OnEnd(const std::optional<Fault>& fault) override {
    const auto self = shared_from_this();
    transport_->streams_.erase(id_);
    sink_->OnEnd(fault);
  }

  BeastTransport* const transport_;
  const StreamId id_;
  const kube::Request request_;
  const StreamOptions options_;
  const std::shared_ptr<StreamSink> sink_;  // shared with who opened the stream
  uint64_t credentials_version_ = 0;
  std::unique_ptr<HttpConnection> connection_;
};

BeastTransport::BeastTransport(TransportOptions options)
    : options_(std::move(options)),
      prng_(std::stoull(RandomHex(8), nullptr, 16)),
      work_(io_.get_executor()) {
  lanes_[CallLane::kShared].connections_max = options_.connections_max;
  lanes_[CallLane::kLease].connections_max = 1;
  const SignalsBlocked blocked;  // inherited by the thread
  thread_ = std::thread([this] {
    Sweep();
    io_.run();
  });
}

BeastTransport::~BeastTransport() {
  asio::post(io_, [this] { Stop(); });
  thread_.join();
  // What callbacks began while everything ended is answered here.
  io_.restart();
  io_.poll();
}

void BeastTransport::StartCall(kube::Request request, const CallOptions& options, Done done) {
  auto call = std::make_shared<Call>(&io_, std::move(request), options, std::move(done));
  asio::post(io_, [this, call = std::move(call)] { Enqueue(call); });
}

StreamId BeastTransport::OpenStream(kube::Request request,
                                    const StreamOptions& options,
                                    std::shared_ptr<StreamSink> sink) {
  const StreamId id(++last_stream_);
  auto stream = std::make_shared<Stream>(this, id, std::move(request), options, std::move(sink));
  asio::post(io_, [this, stream = std::move(stream)] { Launch(stream); });
  return id;
}

void BeastTransport::Resume(StreamId id) {
  asio::post(io_, [this, id] {
    if (const auto found = streams_.find(id); found != streams_.end()) {
      found->second->connection_->Resume();
    }
  });
}

void BeastTransport::Cancel(StreamId id) {
  asio::post(io_, [this, id] {
    if (const auto found = streams_.find(id); found != streams_.end()) {
      const auto stream = found->second;
      stream->connection_->Close(FaultKind::kCancelled, "cancelled");
    }
  });
}

void BeastTransport::RunAfter(Duration delay, std::function<void()> task) {
  asio::post(io_, [this, delay, task = std::move(task)]() mutable {
    if (is_stopping_ || delay <= Duration::zero()) {  // then it has been posted in its turn
      return is_stopping_ ? void() : task();
    }
    const auto timer = std::make_shared<asio::steady_timer>(io_);
    tasks_.insert(timer);
    timer->expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(delay));
    timer->async_wait([this, timer, task = std::move(task)](error_code cancelled) {
      tasks_.erase(timer);
      if (!cancelled && !is_stopping_) {
        task();
      }
    });
  });
}

void BeastTransport::Enqueue(const std::shared_ptr<Call>& call) {
  if (is_stopping_) {
    call->done(Fault{FaultKind::kCancelled, false, "the transport is closing"});
    return;
  }
  Lane& lane = lanes_[call->options.lane];
  lane.waiting.push_back(call);
  Dispatch(&lane);
  if (call->pooled.connection == nullptr) {
    call->patience.expires_at(
        std::chrono::time_point_cast<asio::steady_timer::duration>(call->deadline));
    call->patience.async_wait([this, call](error_code cancelled) {
      if (!cancelled) {
        GiveUpWaiting(call);
      }
    });
  }
}

void BeastTransport::GiveUpWaiting(const std::shared_ptr<Call>& call) {
  auto& waiting = lanes_[call->options.lane].waiting;
  if (const auto found = std::find(waiting.begin(), waiting.end(), call); found != waiting.end()) {
    waiting.erase(found);
    call->done(Fault{FaultKind::kTimeout, false, "no connection became free in time"});
  }
}

// Gives connections to calls that wait, as long as there are any of both.
void BeastTransport::Dispatch(Lane* lane) {
  RefreshTls();
  const TimePoint now = SteadyNow();
  while (!lane->waiting.empty() && !is_stopping_) {
    if (!lane->idle.empty()) {
      Pooled pooled = std::move(lane->idle.back());
      lane->idle.pop_back();
      if (!IsUsable(pooled, now)) {
        --lane->open_count;
        continue;
      }
      const auto call = lane->waiting.front();
      lane->waiting.pop_front();
      Launch(lane, call, std::move(pooled));
    } else if (lane->open_count < lane->connections_max) {
      const auto call = lane->waiting.front();
      lane->waiting.pop_front();
      Result<Pooled> made = Connect();
      if (!made.ok()) {
        call->done(Fault{FaultKind::kTls, false, made.error().ToString()});
        continue;
      }
      ++lane->open_count;
      Launch(lane, call, std::move(made).value());
    } else {
      return;
    }
  }
}

void BeastTransport::Launch(Lane* lane, const std::shared_ptr<Call>& call, Pooled pooled) {
  error_code ignored;
  call->patience.cancel(ignored);
  call->pooled = std::move(pooled);
  lane->running.insert(call);
  const auto credentials = options_.credentials->Current();
  const CallOptions& limits = call->options;
  HttpExchange exchange;
  exchange.request_text =
      RequestText(options_.endpoint, call->request, options_.user_agent, credentials->headers);
  exchange.limits =
      StreamOptions{limits.connect_timeout, limits.first_byte_timeout, limits.total_timeout};
  exchange.deadline = call->deadline;
  exchange.server_clock = options_.server_clock;
  exchange.sink = std::make_shared<CallCollector>(
      limits.body_bytes_max,
      CallCollector::Hooks{
          [this, version = credentials->version] { options_.credentials->ReportRefused(version); },
          [this, call](kube::CallResult result) { CallEnded(call, std::move(result)); }});
  call->pooled.connection->Begin(std::move(exchange));
}

void BeastTransport::CallEnded(const std::shared_ptr<Call>& call, kube::CallResult result) {
  Lane& lane = lanes_[call->options.lane];
  lane.running.erase(call);
  Pooled pooled = std::move(call->pooled);
  pooled.idle_since = SteadyNow();
  if (IsUsable(pooled, pooled.idle_since) && !is_stopping_) {
    lane.idle.push_back(std::move(pooled));
  } else {
    --lane.open_count;
  }
  call->done(std::move(result));
  Dispatch(&lane);
}

void BeastTransport::Launch(const std::shared_ptr<Stream>& stream) {
  RefreshTls();
  if (is_stopping_) {
    stream->sink_->OnEnd(Fault{FaultKind::kCancelled, false, "the transport is closing"});
    return;
  }
  if (options_.endpoint.is_tls && tls_ == nullptr) {
    stream->sink_->OnEnd(Fault{FaultKind::kTls, false, tls_problem_});
    return;
  }
  streams_[stream->id_] = stream;
  stream->connection_ = std::make_unique<HttpConnection>(&io_, options_.endpoint, tls_);
  const auto credentials = options_.credentials->Current();
  stream->credentials_version_ = credentials->version;
  HttpExchange exchange;
  exchange.request_text =
      RequestText(options_.endpoint, stream->request_, options_.user_agent, credentials->headers);
  exchange.limits = stream->options_;
  exchange.server_clock = options_.server_clock;
  exchange.sink = stream;
  stream->connection_->Begin(std::move(exchange));
}

bool BeastTransport::IsUsable(const Pooled& pooled, TimePoint now) const {
  return pooled.tls_version == tls_version_.value_or(0) && now < pooled.renew_at &&
         now - pooled.idle_since < options_.connection_idle_max && pooled.connection->IsReusable();
}

Result<BeastTransport::Pooled> BeastTransport::Connect() {
  if (options_.endpoint.is_tls && tls_ == nullptr) {
    return Error(ErrorCode::kInvalidArgument, tls_problem_);
  }
  Pooled pooled;
  pooled.connection = std::make_unique<HttpConnection>(&io_, options_.endpoint, tls_);
  const double spread = 0.8 + 0.4 * prng_.Unit();
  pooled.renew_at =
      SteadyNow() + std::chrono::duration_cast<Duration>(options_.connection_age_max * spread);
  pooled.tls_version = tls_version_.value_or(0);
  return pooled;
}

// Takes up changed certificates. Those that cannot be used change nothing: a key and its
// certificate are two files, and for a moment they may not match.
void BeastTransport::RefreshTls() {
  const auto credentials = options_.credentials->Current();
  if (!options_.endpoint.is_tls || tls_version_ == credentials->tls_version || is_stopping_) {
    return;
  }
  tls_version_ = credentials->tls_version;
  auto made = TlsContext::Make(credentials->tls);
  if (!made.ok()) {
    tls_problem_ = made.error().ToString();
    options_.logger->Error("cannot use new certificates", {{"error", tls_problem_}});
    return;
  }
  tls_ = std::move(made).value();
  for (auto& [name, lane] : lanes_) {
    lane.open_count -= static_cast<int>(lane.idle.size());
    lane.idle.clear();
  }
  const auto streams = streams_;  // those that end leave the list
  for (const auto& [id, stream] : streams) {
    stream->connection_->Close(FaultKind::kReset, "the certificates have changed");
  }
}

void BeastTransport::Sweep() {
  RefreshTls();
  const TimePoint now = SteadyNow();
  for (auto& [name, lane] : lanes_) {
    lane.open_count -= static_cast<int>(
        std::erase_if(lane.idle, [&](const Pooled& pooled) { return !IsUsable(pooled, now); }));
  }
  sweep_timer_.expires_after(options_.sweep_period);
  sweep_timer_.async_wait([this](error_code cancelled) {
    if (!cancelled && !is_stopping_) {
      Sweep();
    }
  });
}

void BeastTransport::Stop() {
  is_stopping_ = true;
  for (auto& [name, lane] : lanes_) {
    const auto waiting = std::move(lane.waiting);
    lane.waiting.clear();
    for (const auto& call : waiting) {
      call->done(Fault{FaultKind::kCancelled, false, "the transport is closing"});
    }
    const auto running = lane.running;
    for (const auto& call : running) {
      call->pooled.connection->Close(FaultKind::kCancelled, "the transport is closing");
    }
    lane.idle.clear();
  }
  const auto streams = streams_;
  for (const auto& [id, stream] : streams) {
    stream->connection_->Close(FaultKind::kCancelled, "the transport is closing");
  }
  io_.stop();  // not the end of work: a name that is being looked up would hold us up
}

}  // namespace

std::unique_ptr<Transport> MakeBeastTransport(TransportOptions options) {
  LOCKSTEP_CHECK(options.credentials != nullptr && options.logger != nullptr,
                 "a transport needs credentials and a logger");
  return std::make_unique<BeastTransport>(std::move(options));
}

}  // namespace lockstep::control
