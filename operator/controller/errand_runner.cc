#include "operator/controller/errand_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// Calls of one job that are made ready at once, and how few of them call for more. Choice: more
// than go out side by side, so that nobody waits for the next; each may be a pod of 30 KB.
constexpr std::size_t kCallsOpenMax = 64;
constexpr std::size_t kCallsOpenFew = 32;

}  // namespace

void ErrandRunner::Begin(const JobId& job, std::unique_ptr<Errand> errand) {
  const auto [running, is_new] = running_.try_emplace(job);
  LOCKSTEP_CHECK(is_new, "one errand of a job at a time");
  running->second.errand = std::move(errand);
  Advance(job);
}

void ErrandRunner::Accept(kube::CallsAnswered answered) {
  auto open = open_.extract(answered.ticket);
  if (open.empty()) {
    return;
  }
  const JobId job = open.mapped().job;
  std::vector<ErrandCall>& calls = open.mapped().calls;
  LOCKSTEP_CHECK(answered.results.size() == calls.size(), "every call has an answer");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].read(std::move(answered.results[i]));
  }
  running_.at(job).open_count -= calls.size();
  Advance(job);
}

void ErrandRunner::Abandon() {
  api_->AbandonCalls();
  open_.clear();
  running_.clear();
  finished_.clear();
}

std::vector<ClusterAnswer> ErrandRunner::TakeFinished() {
  return std::exchange(finished_, {});
}

void ErrandRunner::Advance(const JobId& job) {
  Running& running = running_.at(job);
  if (running.waiting.empty() && running.open_count == 0) {
    for (ErrandCall& call : running.errand->Next()) {
      running.waiting.push_back(std::move(call));
    }
    if (running.waiting.empty()) {
      finished_.push_back({job, running.errand->TakeAnswers()});
      running_.erase(job);
      return;
    }
  }
  if (!running.waiting.empty() && running.open_count <= kCallsOpenFew) {
    Send(job, &running);
  }
}

void ErrandRunner::Send(const JobId& job, Running* running) {
  const std::size_t count = std::min(running->waiting.size(), kCallsOpenMax - running->open_count);
  Open open{job, {}};
  std::vector<kube::Request> requests;
  for (std::size_t i = 0; i < count; ++i) {
    requests.push_back(running->waiting.front().make());
    open.calls.push_back(std::move(running->waiting.front()));
    running->waiting.pop_front();
  }
  running->open_count += count;
  last_ticket_ = last_ticket_.Next();
  open_.emplace(last_ticket_, std::move(open));
  api_->StartCalls(last_ticket_, job.namespace_name + "/" + job.name, std::move(requests));
}

}  // namespace lockstep::control
