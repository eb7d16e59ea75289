#include "operator/cli/pods/local_poller.h"

#include <cerrno>
#include <mutex>
#include <unistd.h>
#include <utility>

#include <sys/eventfd.h>

#include "common/process/cores.h"

namespace lockstep::control {
namespace {

const SystemClock kClock;

constexpr double kMilli = 1000;

}  // namespace

class LocalPoller::Inbox {
 public:
  explicit Inbox(UniqueFd event) : event_(std::move(event)) {}

  int fd() const { return event_.get(); }

  void Put(StatusAnswer answer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.push_back(std::move(answer));
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  }

  std::vector<StatusAnswer> TakeAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
    return std::exchange(answers_, {});
  }

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::vector<StatusAnswer> answers_;  // guarded by mutex_; each pod has one call under way at most
};

Result<std::unique_ptr<LocalPoller>> LocalPoller::Make(LocalPollerOptions options,
                                                       HttpClient* client) {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) {
    return SystemError(errno, "eventfd");
  }
  return std::unique_ptr<LocalPoller>(
      new LocalPoller(options, client, std::make_shared<Inbox>(std::move(event))));
}

LocalPoller::LocalPoller(const LocalPollerOptions& options,
                         HttpClient* client,
                         const std::shared_ptr<Inbox>& inbox)
    : job_key_(options.job_key),
      inbox_(inbox),
      core_count_(static_cast<double>(ReadCpuMilli("", CountCores())) / kMilli),
      poller_({options.answer_timeout, {}, 64, &kClock}, client, [inbox](StatusAnswer answer) {
        inbox->Put(std::move(answer));
      }) {}

int LocalPoller::fd() const {
  return inbox_->fd();
}

void LocalPoller::SetTargets(std::map<std::string, LocalTarget> targets,
                             Duration interval,
                             TimePoint now) {
  StatusTargets all;
  std::map<std::string, bool> kept;
  for (const auto& [pod, target] : targets) {
    all[pod] = {target.address, job_key_, interval, target.port};
    kept[pod] = target.has_runtime;
  }
  poller_.SetTargets("", all, now);
  silence_.Keep(kept, core_count_);
  targets_ = std::move(targets);
}

std::vector<StatusArrival> LocalPoller::TakeArrivals() {
  std::vector<StatusArrival> arrivals;
  for (const StatusAnswer& answer : inbox_->TakeAll()) {
    StatusPoller::Finding finding = poller_.Accept(answer);
    silence_.Note(answer.pod, finding, answer.received);
    if (const auto target = targets_.find(answer.pod);
        target != targets_.end() && target->second.leader > 0 && silence_.IsSilent(answer.pod)) {
      silence_.See(answer.pod, watch_.LookAtProcess(target->second.leader, SteadyNow()));
    }
    if (finding.document) {
      arrivals.push_back(StatusArrival{*std::move(finding.document), answer.received});
    }
  }
  return arrivals;
}

}  // namespace lockstep::control
