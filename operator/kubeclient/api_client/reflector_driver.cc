#include "operator/kubeclient/api_client/reflector_driver.h"

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "operator/kubeclient/api_client/read_pace.h"

namespace lockstep::control {
namespace {

// A watch is silent while nothing changes, for as long as its server keeps it open: reflectors ask
// for at most 600 s. This is a last resort: a dead host is noticed by the kernel, much sooner.
constexpr auto kWatchIdleMax = std::chrono::seconds(610);

// Choice: a server that asks for more patience than this is asked again all the same.
constexpr auto kRetryAfterMax = std::chrono::seconds(60);

StreamOptions OptionsFor(const kube::Request& request) {
  StreamOptions options;
  if (request.verb == kube::Verb::kWatch) {
    options.idle_timeout = kWatchIdleMax;
  }
  return options;
}

}  // namespace

// Runs on the transport's thread, but for Resume.
class WatchLoop::Core final : public StreamSink, public std::enable_shared_from_this<Core> {
 public:
  Core(const WatchLoopOptions& options, std::shared_ptr<WatchMachine> machine)
      : options_(options), machine_(std::move(machine)), pace_(options.read_interval) {}

  void Begin() {
    machine_->SetResume([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->Resume();
      }
    });
    Prepare();
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    options_.transport->Cancel(stream_);
  }

  void OnStatus(int http_status, std::optional<std::chrono::seconds> retry_after) override {
    if (is_stopped_) {
      return;
    }
    Record(http_status, std::nullopt);
    if (retry_after) {
      const Duration wait = std::min<Duration>(*retry_after, kRetryAfterMax);
      not_before_ = options_.clock->Now() + wait;
    }
    machine_->OnStatus(http_status);
  }

  StreamFlow OnBytes(std::string_view bytes) override {
    if (is_stopped_) {
      return StreamFlow::kStop;
    }
    const TimePoint came = options_.clock->Now();
    const StreamFlow flow = machine_->OnBytes(bytes);
    const Duration rest = pace_.AfterBytes(came, options_.clock->Now());
    if (flow != StreamFlow::kMore || rest == Duration::zero()) {
      return flow;
    }
    options_.transport->RunAfter(
        rest, [self = shared_from_this(), stream = stream_] { self->EndRest(stream); });
    return StreamFlow::kPause;
  }

  void OnEnd(const std::optional<kube::Fault>& fault) override {
    if (is_stopped_) {
      return;
    }
    if (fault && !has_header_) {
      Record(0, fault->kind);
    }
    machine_->OnEnd(fault, options_.clock->Now());
    // The same trouble again and again is told once.
    if (std::string failure = machine_->LastFailure(); failure != last_failure_) {
      options_.logger->Warn("a watch ended with an error",
                            {{"target", request_.target}, {"error", failure}});
      last_failure_ = std::move(failure);
    }
    Prepare();
  }

 private:
  // Asks the machine what is next, and waits until it is time.
  void Prepare() {
    const TimePoint now = options_.clock->Now();
    WatchMachine::Next next = machine_->NextRequest(now);
    request_ = std::move(next.request);
    const TimePoint due = std::max(next.not_before, not_before_);
    if (due <= now) {
      Send();
      return;
    }
    options_.transport->RunAfter(due - now, [self = shared_from_this()] {
      if (!self->is_stopped_) {
        self->Send();
      }
    });
  }

  void Send() {
    sent_at_ = options_.clock->Now();
    has_header_ = false;
    const StreamId id =
        options_.transport->OpenStream(request_, OptionsFor(request_), shared_from_this());
    const std::lock_guard lock(mutex_);
    stream_ = id;
  }

  // A rest may last longer than its stream; the next one is not its business.
  void EndRest(StreamId stream) {
    if (stream == stream_) {
      pace_.Begin(options_.clock->Now());
      Resume();
    }
  }

  void Resume() {
    const std::lock_guard lock(mutex_);
    if (!is_stopped_) {
      options_.transport->Resume(stream_);
    }
  }

  void Record(int http_status, std::optional<kube::FaultKind> fault) {
    has_header_ = true;
    if (options_.observer == nullptr) {
      return;
    }
    CallRecord record;
    record.method = request_.method;
    record.http_status = http_status;
    record.fault = fault;
    record.duration = options_.clock->Now() - sent_at_;
    options_.observer->OnCall(record);
  }

  const WatchLoopOptions options_;
  const std::shared_ptr<WatchMachine> machine_;  // shared with who made the loop
  kube::Request request_;
  TimePoint not_before_{};  // asked for by Retry-After
  TimePoint sent_at_{};
  bool has_header_ = false;
  ReadPace pace_;
  std::string last_failure_;  // as it was last logged
  std::mutex mutex_;          // for what Resume reads
  bool is_stopped_ = false;
  StreamId stream_;
};

WatchLoop::WatchLoop(const WatchLoopOptions& options, std::shared_ptr<WatchMachine> machine)
    : core_(std::make_shared<Core>(options, std::move(machine))), transport_(options.transport) {
  LOCKSTEP_CHECK(options.transport != nullptr && options.clock != nullptr,
                 "a watch needs a transport and a clock");
  LOCKSTEP_CHECK(options.logger != nullptr, "a watch needs a logger");
  transport_->RunAfter(Duration::zero(), [core = core_] { core->Begin(); });
}

WatchLoop::~WatchLoop() {
  auto stopped = std::make_shared<std::promise<void>>();
  std::future<void> future = stopped->get_future();
  transport_->RunAfter(Duration::zero(), [core = core_, stopped = std::move(stopped)] {
    core->Stop();
    stopped->set_value();
  });
  future.wait();  // ends as well when the transport drops the task
}

}  // namespace lockstep::control
