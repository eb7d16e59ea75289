#include "tests/sim/sim_network.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/selector.h"

namespace lockstep::control::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What one write may take; a leader sends none that might outlast its lease, and what may outlast
// it is given up after the longer time. As CallDispatcher's.
constexpr Duration kWriteTimeout = seconds(5);
constexpr Duration kWriteTimeoutMax = seconds(40);

// "/api/v1/namespaces/NAMESPACE/PLURAL/NAME?..": what a write other than a creation is about.
kube::ObjectKey KeyOf(std::string_view target) {
  target = target.substr(0, target.find('?'));
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < target.size(); at = target.find('/', at + 1)) {
    parts.push_back(target.substr(at + 1, target.find('/', at + 1) - at - 1));
  }
  const auto named = std::find(parts.begin(), parts.end(), "namespaces");
  if (parts.end() - named < 4) {
    return {};
  }
  return {std::string(named[1]), std::string(named[3])};
}

bool IsStatusWrite(const kube::Request& request) {
  return request.method == "PUT" && request.target.ends_with("/status");
}

}  // namespace

void SimNetwork::StartCalls(kube::CallTicket ticket,
                            const std::string& /*lane*/,
                            std::vector<kube::Request> requests) {
  Group group{ticket, {}, {requests.size(), kube::Fault{}}, parts_.context->now};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Call call{i, std::move(requests[i]), parts_.context->now + TimeToArrive(), {}};
    Admission& admission = parts_.server->admission;
    if (admission.slow_answers > 0 && call.request.method == "POST" &&
        call.request.resource == kube::kPods) {
      --admission.slow_answers;
      ++admission.slow_count;
      call.arrives_at = parts_.context->now + parts_.context->Between(seconds(8), seconds(35));
    }
    const bool is_fenced = call.request.is_mutating() && !call.request.may_outlast_lease;
    call.gives_up_at = is_fenced
                           ? std::min(parts_.leads_until(), parts_.context->now + kWriteTimeoutMax)
                           : parts_.context->now + kWriteTimeoutMax;
    if (call.request.is_mutating() && parts_.leads_until() <= parts_.context->now + kWriteTimeout) {
      group.results[i] = kube::Fault{kube::FaultKind::kNotLeader, false, "the lease is not ours"};
    } else {
      group.waiting.push_back(std::move(call));
    }
  }
  groups_.push_back(std::move(group));
}

// Most calls are faster than anything else that happens. Some wait for a webhook, or worse.
Duration SimNetwork::TimeToArrive() {
  SimContext* const context = parts_.context;
  if (context->Strikes(60)) {
    return context->Between(milliseconds(0), seconds(45));
  }
  return context->Happens(4) ? context->Between(milliseconds(1), milliseconds(1200)) : Duration{};
}

std::vector<kube::CallsAnswered> SimNetwork::Run() {
  std::vector<kube::CallsAnswered> answered;
  for (std::size_t i = 0; i < groups_.size() && !is_dead_;) {
    Group& group = groups_[i];
    Deliver(&group);
    if (group.waiting.empty() && group.answered_at <= parts_.context->now && !is_dead_) {
      answered.push_back({group.ticket, std::move(group.results)});
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return answered;
}

// Side by side, so in no order.
void SimNetwork::Deliver(Group* group) {
  SimContext* const context = parts_.context;
  std::vector<Call> calls = std::exchange(group->waiting, {});
  for (std::size_t i = calls.size(); i > 1; --i) {
    std::swap(calls[i - 1], calls[context->prng.Below(i)]);
  }
  for (Call& call : calls) {
    if (is_dead_) {
      return;
    }
    if (call.arrives_at > context->now && call.gives_up_at > context->now) {
      group->waiting.push_back(std::move(call));
      continue;
    }
    group->results[call.index] =
        call.gives_up_at <= call.arrives_at
            ? kube::CallResult(kube::Fault{kube::FaultKind::kTimeout, true, "the client gave up"})
            : Begin(call.request);
    if (context->Strikes(40)) {
      group->answered_at = std::max(group->answered_at,
                                    context->now + context->Between(milliseconds(0), seconds(5)));
    }
    if (context->Strikes(400)) {
      context->Tell("the operator crashes after a call");
      Die();
    }
  }
}

// A call arrives at the server, or does not.
kube::CallResult SimNetwork::Begin(const kube::Request& request) {
  kube::CallResult result = Reach(request);
  const auto* const reply = std::get_if<kube::Reply>(&result);
  parts_.context->Tell(
      "  " + request.method + " " + request.target.substr(0, request.target.find('?')) + " -> " +
      (reply != nullptr ? std::to_string(reply->status)
                        : std::string(kube::FaultKindName(std::get<kube::Fault>(result).kind))));
  return result;
}

std::vector<kube::CallResult> SimNetwork::CallAll(const std::vector<kube::Request>& requests) {
  std::vector<kube::CallResult> results;
  for (const kube::Request& request : requests) {
    if (is_dead_) {
      results.emplace_back(
          kube::Fault{kube::FaultKind::kCancelled, false, "the process has ended"});
    } else if (request.is_mutating() &&
               parts_.leads_until() <= parts_.context->now + kWriteTimeout) {
      results.emplace_back(
          kube::Fault{kube::FaultKind::kNotLeader, false, "the lease is not ours"});
    } else {
      results.push_back(Exchange(request));
    }
  }
  return results;
}

kube::CallResult SimNetwork::Exchange(const kube::Request& request) {
  SimContext* const context = parts_.context;
  if (context->Happens(4)) {
    context->now += context->Between(milliseconds(1), milliseconds(20));
    parts_.interlude();
  }
  if (context->Strikes(150)) {
    // Late, while the rest of the world goes on, and its calls may be late too.
    const TimePoint sent = context->now;
    for (int i = 0; i < 4; ++i) {
      context->now += context->Between(milliseconds(0), milliseconds(1200));
      parts_.interlude();
    }
    if (request.is_mutating() && sent + kWriteTimeout <= context->now) {
      return kube::Fault{kube::FaultKind::kTimeout, true, "the client gave up"};
    }
  }
  return Begin(request);
}

kube::CallResult SimNetwork::Reach(const kube::Request& request) {
  SimContext* const context = parts_.context;
  if (is_out) {
    return kube::Fault{kube::FaultKind::kRefused, false, "nobody answers"};
  }
  if (context->Strikes(60)) {
    return kube::Fault{kube::FaultKind::kReset, false, "lost before it was carried out"};
  }
  if (context->Strikes(80)) {
    return StatusReply(context->Happens(2) ? 500 : 429, "InternalError", "etcd is slow");
  }
  kube::CallResult result = CarryOut(request);
  if (context->Strikes(60)) {
    return kube::Fault{kube::FaultKind::kReset, true, "lost after it was carried out"};
  }
  return result;
}

kube::CallResult SimNetwork::CarryOut(const kube::Request& request) {
  const ObjectStore& store = parts_.server->store();
  const kube::ObjectKey key = KeyOf(request.target);
  const ObjectPtr before =
      request.is_mutating() && !key.name.empty() ? store.Get(request.resource, key) : nullptr;
  const int64_t version = store.version();
  const bool is_election = request.resource == kube::kLeases;
  if (request.is_mutating() && !is_election && !request.may_outlast_lease) {
    parts_.checks->Require(parts_.leads_until() > parts_.context->now,
                           "a write was carried out after its operator's lease had run out");
  }
  kube::Reply reply = parts_.server->Handle(request, parts_.context->ServerTime());
  writes += store.version() != version && !is_election ? 1 : 0;
  if (!request.is_mutating() && request.resource == kube::kPods && !key.name.empty()) {
    parts_.checks->OnPodRead(store.Get(kube::kPods, key));
  }
  if (request.method == "POST" && reply.is_success() && parts_.context->has_autoscaler) {
    parts_.checks->OnCreated(request.resource, ParseJson(reply.body).value());
  }
  if (before == nullptr || !reply.is_success()) {
    return reply;
  }
  const ObjectPtr after = store.Get(request.resource, key);
  if (IsStatusWrite(request)) {
    parts_.checks->OnStatusWrite(before, after);
  } else if (!is_election && request.resource != kube::kTrainingJobs &&
             request.resource != kube::kTrainingQueues && after != before) {
    parts_.checks->OnWrite(before, after);
  }
  return reply;
}

}  // namespace lockstep::control::sim
