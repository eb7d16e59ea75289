#include "operator/cmd/control_post.h"

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace lockstep::control {

// The messages that wait, and how many are under way. Thread: any.
class ControlPost::Line : public std::enable_shared_from_this<Line> {
 public:
  enum class Fate { kTaken, kDropped, kFirstDropped };  // the first since nobody waited

  Line(HttpClient* client, const ControlPostOptions& options)
      : client_(client), options_(options) {}

  Fate Take(HttpRequest request) {
    {
      const std::lock_guard lock(mutex_);
      if (open_ >= options_.open_max && waiting_.size() >= options_.waiting_max) {
        ++dropped_;
        return std::exchange(is_full_, true) ? Fate::kDropped : Fate::kFirstDropped;
      }
      if (open_ >= options_.open_max) {
        waiting_.push_back({std::move(request), SteadyNow()});
        return Fate::kTaken;
      }
      ++open_;
    }
    Begin(std::move(request));
    return Fate::kTaken;
  }

  std::size_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  void Begin(HttpRequest request) {
    client_->Start(std::move(request),
                   options_.timeout,
                   [self = shared_from_this()](const Result<HttpResponse>& answer) {
                     self->GoOn(!answer.ok() && answer.error().code() == ErrorCode::kAborted);
                   });
  }

  // One is over. `is_end`: the client takes no more.
  void GoOn(bool is_end) {
    std::optional<HttpRequest> next;
    {
      const std::lock_guard lock(mutex_);
      DropOutdated(is_end);
      if (waiting_.empty()) {
        --open_;
        is_full_ = false;
        return;
      }
      next = std::move(waiting_.front().request);
      waiting_.pop_front();
    }
    Begin(*std::move(next));
  }

  // Dead receivers take their whole time each; whoever waits behind them has learnt it by then.
  // Precondition: mutex_ is held.
  void DropOutdated(bool is_end) {
    const TimePoint latest = SteadyNow() - options_.timeout;
    while (!waiting_.empty() && (is_end || waiting_.front().since < latest)) {
      waiting_.pop_front();
      ++dropped_;
    }
  }

  struct Waiting {
    HttpRequest request;
    TimePoint since;
  };

  HttpClient* client_;
  ControlPostOptions options_;
  mutable std::mutex mutex_;
  std::deque<Waiting> waiting_;  // guarded by that, as all below
  std::size_t open_ = 0;
  std::size_t dropped_ = 0;
  bool is_full_ = false;  // somebody was dropped since nobody waited
};

ControlPost::ControlPost(HttpClient* client, Logger* logger, ControlPostOptions options)
    : logger_(logger), port_(options.port), line_(std::make_shared<Line>(client, options)) {}

void ControlPost::Send(const std::string& address,
                       const std::string& job_key,
                       const ControlMessage& message) {
  HttpRequest request;
  request.method = "POST";
  request.address = address;
  request.port = port_;
  request.target = "/control";
  request.body = EncodeControlMessage(message);
  request.headers[kControlSignatureHeader] = SignControlBody(job_key, request.body);
  if (line_->Take(std::move(request)) == Line::Fate::kFirstDropped) {
    logger_->Warn(
        "control messages dropped, because too many are waiting; pods still notice lost peers by "
        "their connections");
  }
}

std::size_t ControlPost::dropped_count() const {
  return line_->dropped();
}

}  // namespace lockstep::control
