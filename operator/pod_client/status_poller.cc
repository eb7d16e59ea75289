#include "operator/pod_client/status_poller.h"

#include <algorithm>
#include <cstdint>

#include "common/contract/environment/topology.h"
#include "common/json/json.h"

namespace lockstep::control {
namespace {

constexpr int kUnauthorized = 401;

// A token is used again for half of its life: the other half is for the way and for clocks that
// differ. Choice: signing each question anew was two thirds of what asking costs this thread.
constexpr Duration kTokenUse = kStatusTokenLife / 2;

TokenVerdict RefusalOf(const std::string& body) {
  const Result<Json> json = ParseJson(body);
  const bool is_expired = json.ok() && json->is_object() && json->contains("error") &&
                          (*json)["error"] == kStatusTokenExpired;
  return is_expired ? TokenVerdict::kExpired : TokenVerdict::kForeign;
}

}  // namespace

StatusPoller::StatusPoller(StatusPollerOptions options, HttpClient* client, Deliver deliver)
    : options_(options), client_(client), deliver_(std::move(deliver)) {}

void StatusPoller::SetTargets(const std::string& group,
                              const StatusTargets& targets,
                              TimePoint now) {
  for (auto pod = pods_.lower_bound({group, ""});
       pod != pods_.end() && pod->first.first == group;) {
    if (targets.count(pod->first.second) > 0) {
      ++pod;
      continue;
    }
    Forget(pod->first, pod->second.due);
    pod = pods_.erase(pod);
  }
  for (const auto& [name, target] : targets) {
    const Key key{group, name};
    const auto [entry, is_new] = pods_.try_emplace(key);
    Pod& pod = entry->second;
    if (!is_new && pod.target == target) {
      continue;
    }
    pod.target = target;
    pod.token.clear();
    pod.pause = target.interval;
    if (!pod.is_waiting) {
      Forget(key, pod.due);
      pod.due = is_new ? now : pod.asked_at + pod.pause;
      due_.emplace(pod.due, key);
    }
  }
}

void StatusPoller::Process(TimePoint now) {
  while (!due_.empty() && due_.begin()->first <= now && open_ < options_.open_max) {
    const auto [due, key] = *due_.begin();
    due_.erase(due_.begin());
    if (MayAsk(key.first)) {
      Ask(key, &pods_.at(key), now);
    } else {
      groups_.at(key.first).parked.emplace(due, key.second);
    }
  }
}

bool StatusPoller::MayAsk(const std::string& group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() || found->second.open_count < options_.open_max - open_;
}

// One of its calls has ended: the pod that has waited longest is due again.
void StatusPoller::Unpark(const std::string& group) {
  const auto found = groups_.find(group);
  auto& parked = found->second.parked;
  if (!parked.empty()) {
    due_.emplace(parked.begin()->first, Key{group, parked.begin()->second});
    parked.erase(parked.begin());
  }
  if (--found->second.open_count == 0) {
    for (const auto& [due, pod] : parked) {
      due_.emplace(due, Key{group, pod});
    }
    groups_.erase(found);
  }
}

void StatusPoller::Forget(const Key& key, TimePoint due) {
  due_.erase({due, key});
  if (const auto group = groups_.find(key.first); group != groups_.end()) {
    group->second.parked.erase({due, key.second});
  }
}

void StatusPoller::Ask(const Key& key, Pod* pod, TimePoint now) {
  pod->is_waiting = true;
  pod->asked_at = now;
  ++open_;
  ++groups_[key.first].open_count;
  HttpRequest request;
  request.address = pod->target.address;
  request.port = static_cast<uint16_t>(pod->target.port);
  request.target = "/status";
  request.answer_bytes_max = pod->target.answer_bytes_max;
  request.headers["Authorization"] = "Bearer " + TokenFor(key.second, pod);
  client_->Start(std::move(request),
                 options_.answer_timeout,
                 [deliver = deliver_, key](Result<HttpResponse> response) {
                   deliver({key.first, key.second, std::move(response), SteadyNow()});
                 });
}

// Signed anew, too, when the clock of the calendar was set back.
const std::string& StatusPoller::TokenFor(const std::string& name, Pod* pod) const {
  const WallTime now = options_.clock->WallNow();
  if (pod->token.empty() || now < pod->token_made || pod->token_made + kTokenUse <= now) {
    pod->token = StatusToken(pod->target.job_key, name, now);
    pod->token_made = now;
  }
  return pod->token;
}

std::optional<TimePoint> StatusPoller::NextDeadline() const {
  if (due_.empty() || open_ >= options_.open_max) {
    return std::nullopt;  // an answer comes first
  }
  return due_.begin()->first;
}

StatusPoller::Finding StatusPoller::Accept(const StatusAnswer& answer) {
  --open_;
  Unpark(answer.group);
  const Key key{answer.group, answer.pod};
  const auto entry = pods_.find(key);
  if (entry == pods_.end() || !entry->second.is_waiting) {
    return {};  // nobody wants to know any more
  }
  Pod& pod = entry->second;
  Finding finding;
  const bool is_answered = answer.response.ok();
  finding.is_closed = !is_answered && answer.response.error().code() == ErrorCode::kPeerLost;
  if (is_answered || finding.is_closed) {
    pod.unanswered = 0;
  } else if (answer.response.error().code() != ErrorCode::kUnavailable) {
    ++pod.unanswered;  // else it was not asked at all
  }
  finding.unanswered = pod.unanswered;
  if (answer.response.ok() && answer.response->status == kUnauthorized) {
    finding.refusal = RefusalOf(answer.response->body);
  }
  if (answer.response.ok() && answer.response->status == 200) {
    auto decoded = DecodeStatusDocument(answer.response->body);
    // An address is kept by a replacement: only the pod that was asked may answer.
    if (decoded.ok() && decoded->pod == answer.pod) {
      finding.document = std::move(decoded).value();
    }
  }
  // Not up yet, or frozen: the age of its last document tells.
  pod.pause = finding.document
                  ? pod.target.interval
                  : std::max(pod.target.interval, std::min(pod.pause * 2, options_.interval_max));
  pod.is_waiting = false;
  pod.due = pod.asked_at + pod.pause;
  due_.emplace(pod.due, key);
  return finding;
}

}  // namespace lockstep::control
