#include "operator/cli/status_poller.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <unistd.h>
#include <utility>

#include <sys/eventfd.h>

#include "common/contract/control_message.h"
#include "common/contract/topology.h"

namespace lockstep::control {

class StatusPoller::Inbox {
 public:
  explicit Inbox(UniqueFd event) : event_(std::move(event)) {}

  int fd() const { return event_.get(); }

  void Put(Answer answer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.push_back(std::move(answer));
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  }

  std::vector<Answer> TakeAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
    return std::exchange(answers_, {});
  }

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::vector<Answer> answers_;  // guarded by mutex_; each pod has one call under way at most
};

Result<std::unique_ptr<StatusPoller>> StatusPoller::Make(StatusPollerOptions options,
                                                         HttpClient* client) {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) {
    return SystemError(errno, "eventfd");
  }
  return std::unique_ptr<StatusPoller>(
      new StatusPoller(std::move(options), client, std::make_shared<Inbox>(std::move(event))));
}

StatusPoller::StatusPoller(StatusPollerOptions options,
                           HttpClient* client,
                           std::shared_ptr<Inbox> inbox)
    : options_(std::move(options)),
      client_(client),
      authorization_("Bearer " + StatusToken(options_.job_key)),
      inbox_(std::move(inbox)) {}

int StatusPoller::fd() const {
  return inbox_->fd();
}

void StatusPoller::SetTargets(const std::map<std::string, std::string>& targets) {
  std::erase_if(targets_, [&targets](const auto& entry) { return !targets.contains(entry.first); });
  for (const auto& [pod, address] : targets) {
    targets_[pod].address = address;
  }
}

void StatusPoller::Process(TimePoint now, Duration interval) {
  for (auto& [pod, target] : targets_) {
    if (target.is_waiting || now < target.asked_at + interval) {
      continue;
    }
    target.is_waiting = true;
    target.asked_at = now;
    HttpRequest request;
    request.address = target.address;
    request.port = static_cast<uint16_t>(kStatusPort);
    request.target = "/status";
    request.headers["Authorization"] = authorization_;
    client_->Start(std::move(request),
                   options_.answer_timeout,
                   [inbox = inbox_, name = pod](Result<HttpResponse> response) {
                     inbox->Put(Answer{name, std::move(response), SteadyNow()});
                   });
  }
}

TimePoint StatusPoller::NextDeadline(TimePoint now, Duration interval) const {
  TimePoint next = now + std::chrono::hours(1);
  for (const auto& [pod, target] : targets_) {
    if (!target.is_waiting) {
      next = std::min(next, target.asked_at + interval);
    }
  }
  return next;
}

std::vector<StatusArrival> StatusPoller::TakeArrivals() {
  std::vector<StatusArrival> arrivals;
  for (Answer& answer : inbox_->TakeAll()) {
    const auto target = targets_.find(answer.pod);
    if (target != targets_.end()) {
      target->second.is_waiting = false;
    }
    if (!answer.response.ok() || answer.response->status != 200) {
      continue;  // not up yet, or frozen: the age of its last document tells
    }
    auto document = DecodeStatusDocument(answer.response->body);
    // An address is kept by a replacement: only the pod that was asked may answer.
    if (document.ok() && document->pod == answer.pod) {
      arrivals.push_back(StatusArrival{std::move(document).value(), answer.received});
    }
  }
  return arrivals;
}

}  // namespace lockstep::control
