#include "operator/kubeclient/api_client/lease_driver.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {

using kube::LeaseRole;

// Runs on the transport's thread, but for what other threads read.
class LeaseDriver::Core final : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(LeaseDriverOptions options)
      : options_(std::move(options)), election_(options_.lease, options_.seed) {}

  void Prepare() {
    if (is_ended_ || role_ == LeaseRole::kLost) {
      return;
    }
    for (const auto& [name, value] : TakeAnnotations()) {
      election_.Annotate(name, value);
    }
    const TimePoint now = options_.clock->Now();
    kube::LeaseElection::Next next = election_.NextRequest(now, options_.clock->WallNow());
    if (next.not_before <= now) {
      Send(std::move(next.request));
      return;
    }
    // The request is asked for anew when its time has come: it carries the time of its making.
    options_.transport->RunAfter(next.not_before - now,
                                 [self = shared_from_this(), round = round_] {
                                   if (round == self->round_) {
                                     self->Prepare();
                                   }
                                 });
  }

  void Rejoin() {
    if (is_ended_ || role_ != LeaseRole::kLost) {
      return;
    }
    wants_to_rejoin_ = is_under_way_;
    if (is_under_way_) {
      return;
    }
    ++round_;
    election_.Rejoin();
    Publish();
    Prepare();
  }

  // Nobody listens any more: nothing that was given to us may be touched.
  void Abandon() {
    is_ended_ = true;
    is_abandoned_ = true;
  }

  // `done` is called when the lease is given up, or cannot be.
  void Release(std::function<void()> done) {
    is_ended_ = true;
    released_ = std::move(done);
    if (!is_under_way_) {
      SendRelease();
    }
  }

  // Kept until the next request is made: posted tasks may overtake each other.
  void Annotate(const std::string& name, const std::string& value) {
    const std::lock_guard lock(mutex_);
    annotations_[name] = value;
  }

  TimePoint leads_until() const { return TimePoint(Duration(leads_until_.load())); }

  LeaseRole role() const {
    const std::lock_guard lock(mutex_);
    return role_;
  }

  std::string holder() const {
    const std::lock_guard lock(mutex_);
    return holder_;
  }

  std::string refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  std::map<std::string, std::string> TakeAnnotations() {
    const std::lock_guard lock(mutex_);
    return std::exchange(annotations_, {});
  }

  CallOptions Limits() const {
    CallOptions call;
    // Another try must fit before the renew deadline: less than two retry periods.
    call.total_timeout = options_.lease.retry_period * 3 / 2;
    call.lane = CallLane::kLease;
    return call;
  }

  void Send(kube::Request request) {
    is_under_way_ = true;
    const TimePoint sent = options_.clock->Now();
    const std::string method = request.method;
    options_.transport->StartCall(
        std::move(request),
        Limits(),
        [self = shared_from_this(), sent, method](const kube::CallResult& result) {
          if (!self->is_abandoned_) {
            self->Observe(method, result, sent);
            self->OnAnswer(result, sent);
          }
        });
  }

  void OnAnswer(const kube::CallResult& result, TimePoint sent) {
    is_under_way_ = false;
    election_.OnResult(result, sent, options_.clock->Now());
    NoteTrouble(result);
    Publish();
    if (released_) {
      SendRelease();
    } else if (wants_to_rejoin_) {
      Rejoin();
    } else {
      Prepare();
    }
  }

  // Why the lease cannot be had, told when it changes: an outage lasts for many tries. Replies
  // other than these two belong to the election: it is held, it is not there, somebody was faster.
  void NoteTrouble(const kube::CallResult& result) {
    const auto* const fault = std::get_if<kube::Fault>(&result);
    const auto* const reply = std::get_if<kube::Reply>(&result);
    const bool is_refused = reply != nullptr && (reply->status == kube::kHttpUnauthorized ||
                                                 reply->status == kube::kHttpForbidden);
    const std::string message =
        is_refused || fault != nullptr ? kube::ToError(result).message() : std::string();
    {
      const std::lock_guard lock(mutex_);
      refusal_ = is_refused ? message : "";
    }
    std::string trouble = is_refused         ? "refused"
                          : fault != nullptr ? std::string(kube::FaultKindName(fault->kind))
                                             : "";
    if (is_ended_ || trouble == trouble_) {
      return;
    }
    if (trouble.empty()) {
      options_.logger->Info("the API server answers calls for the lease again",
                            {{"after", trouble_}});
    } else {
      options_.logger->Warn("the lease was not renewed", {{"fault", trouble}, {"error", message}});
    }
    trouble_ = std::move(trouble);
  }

  // Tells everybody where we stand, and looks again when a leader's time runs out.
  void Publish() {
    if (is_ended_) {
      return;
    }
    const TimePoint now = options_.clock->Now();
    const LeaseRole role = election_.role(now);
    leads_until_.store(election_.leads_until().time_since_epoch().count());
    const bool is_news = role != role_;
    {
      const std::lock_guard lock(mutex_);
      role_ = role;
      holder_ = election_.holder();
    }
    if (is_news && options_.on_role != nullptr) {
      options_.on_role(role);
    }
    if (role == LeaseRole::kLeader && !is_watching_clock_) {
      is_watching_clock_ = true;
      options_.transport->RunAfter(election_.leads_until() - now, [self = shared_from_this()] {
        self->is_watching_clock_ = false;
        self->Publish();
      });
    }
  }

  void SendRelease() {
    std::optional<kube::Request> request = election_.Release(options_.clock->WallNow());
    leads_until_.store(TimePoint::min().time_since_epoch().count());
    if (!request) {
      std::exchange(released_, nullptr)();
      return;
    }
    options_.transport->StartCall(
        *std::move(request), Limits(), [self = shared_from_this()](const kube::CallResult& result) {
          if (self->is_abandoned_) {
            return;
          }
          const auto* reply = std::get_if<kube::Reply>(&result);
          if (reply == nullptr || !reply->is_success()) {
            self->options_.logger->Warn("the lease was not released",
                                        {{"error", kube::ToError(result).message()}});
          }
          std::exchange(self->released_, nullptr)();
        });
  }

  void Observe(const std::string& method, const kube::CallResult& result, TimePoint sent) const {
    if (options_.observer == nullptr) {
      return;
    }
    CallRecord record;
    record.method = method;
    record.duration = options_.clock->Now() - sent;
    if (const auto* reply = std::get_if<kube::Reply>(&result)) {
      record.http_status = reply->status;
      record.reply_bytes = reply->body.size();
    } else {
      record.fault = std::get<kube::Fault>(result).kind;
    }
    options_.observer->OnCall(record);
  }

  const LeaseDriverOptions options_;
  kube::LeaseElection election_;
  bool is_under_way_ = false;
  bool is_ended_ = false;
  bool is_abandoned_ = false;
  bool is_watching_clock_ = false;
  bool wants_to_rejoin_ = false;    // when the request under way is answered
  int64_t round_ = 0;               // of waiting; what an earlier one has scheduled is void
  std::function<void()> released_;  // set: the lease is being given up

  std::atomic<TimePoint::rep> leads_until_{TimePoint::min().time_since_epoch().count()};
  mutable std::mutex mutex_;                        // for what other threads read or write
  std::map<std::string, std::string> annotations_;  // to write, by name
  LeaseRole role_ = LeaseRole::kStandby;
  std::string holder_;
  std::string refusal_;
  std::string trouble_;  // as it was last told; the transport's thread only
};

namespace {

// Runs `task` on the transport's thread and waits until it has run, or was dropped because the
// transport is closing, or the deadline has passed.
template <typename Task>
void RunAndWait(Transport* transport, Task task, std::optional<Deadline> deadline) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> future = done->get_future();
  transport->RunAfter(Duration::zero(), [task = std::move(task), done = std::move(done)] {
    task([done] { done->set_value(); });
  });
  if (deadline) {
    future.wait_until(deadline->when());
  } else {
    future.wait();
  }
}

}  // namespace

LeaseDriver::LeaseDriver(LeaseDriverOptions options) : transport_(options.transport) {
  LOCKSTEP_CHECK(options.transport != nullptr && options.clock != nullptr,
                 "an election needs a transport and a clock");
  LOCKSTEP_CHECK(options.logger != nullptr, "an election needs a logger");
  LOCKSTEP_CHECK(kube::CheckLeaseOptions(options.lease).ok(), "the lease options are not valid");
  core_ = std::make_shared<Core>(std::move(options));
  transport_->RunAfter(Duration::zero(), [core = core_] { core->Prepare(); });
}

LeaseDriver::~LeaseDriver() {
  RunAndWait(
      transport_,
      [core = core_](const auto& done) {
        core->Abandon();
        done();
      },
      std::nullopt);
}

TimePoint LeaseDriver::leads_until() const {
  return core_->leads_until();
}

LeaseRole LeaseDriver::role() const {
  return core_->role();
}

void LeaseDriver::Rejoin() {
  transport_->RunAfter(Duration::zero(), [core = core_] { core->Rejoin(); });
}

void LeaseDriver::Annotate(const std::string& name, const std::string& value) {
  core_->Annotate(name, value);
}

std::string LeaseDriver::holder() const {
  return core_->holder();
}

std::string LeaseDriver::refusal() const {
  return core_->refusal();
}

void LeaseDriver::Release(Deadline deadline) {
  RunAndWait(
      transport_, [core = core_](const auto& done) { core->Release(done); }, deadline);
}

}  // namespace lockstep::control
