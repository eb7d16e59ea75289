#include "operator/controller/errand_runner.h"

#include <iterator>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// With so many calls under way in all, each job has one more at most. Choice: four times what may
// be sent and not answered; each may be a pod of 30 KB, so 15 MB, and 8 MB more of 256 turns.
constexpr std::size_t kCallsOpenMany = 512;

// With so many bytes of one job under way it sends nothing more: a pod may be as large as the API
// server takes one, 1.5 MB, and to write it takes the controller's thread some milliseconds.
constexpr std::size_t kBytesOfJobMany = std::size_t{1} << 19U;

}  // namespace

void ErrandRunner::Begin(const JobId& job, std::unique_ptr<Errand> errand) {
  const auto [running, is_new] = running_.try_emplace(job);
  LOCKSTEP_CHECK(is_new, "the job already has calls in progress");
  running->second.errand = std::move(errand);
  Advance(job);
}

void ErrandRunner::Accept(kube::CallsAnswered answered) {
  auto open = open_.extract(answered.ticket);
  if (open.empty()) {
    return;
  }
  LOCKSTEP_CHECK(answered.results.size() == 1, "a call must have exactly one result");
  open.mapped().read(std::move(answered.results.front()));
  Running& running = running_.at(open.mapped().job);
  --running.open_count;
  running.open_bytes -= open.mapped().bytes;
  Advance(open.mapped().job);
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
  Send(job, &running);
  while (running.waiting.empty() && running.open_count == 0) {
    std::vector<ErrandCall> calls = running.errand->Next();
    if (calls.empty()) {
      finished_.push_back({job, running.errand->TakeAnswers()});
      running_.erase(job);
      return;
    }
    running.waiting.assign(std::make_move_iterator(calls.begin()),
                           std::make_move_iterator(calls.end()));
    Send(job, &running);
  }
}

void ErrandRunner::Send(const JobId& job, Running* running) {
  while (!running->waiting.empty() && MaySend(*running)) {
    ErrandCall call = std::move(running->waiting.front());
    running->waiting.pop_front();
    std::optional<kube::Request> request = call.make();
    if (!request.has_value()) {
      continue;
    }
    ++running->open_count;
    running->open_bytes += request->body.size();
    last_ticket_ = last_ticket_.Next();
    open_.emplace(last_ticket_, Open{job, request->body.size(), std::move(call.read)});
    std::vector<kube::Request> requests;
    requests.push_back(*std::move(request));
    api_->StartCalls(last_ticket_, job.namespace_name + "/" + job.name, std::move(requests));
  }
}

bool ErrandRunner::MaySend(const Running& running) const {
  return running.open_bytes < kBytesOfJobMany &&
         running.open_count < (open_.size() < kCallsOpenMany ? calls_of_job_max_ : 1);
}

}  // namespace lockstep::control
