#include "operator/cmd/work_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/contract/control_message.h"
#include "operator/api/conditions.h"

namespace lockstep::control {
namespace {

constexpr Duration kTurnMax = std::chrono::seconds(1);
constexpr Duration kLeadRetry = std::chrono::milliseconds(500);  // choice
constexpr Duration kSyncPoll = std::chrono::milliseconds(20);    // choice: unseen in "2 s to ready"

constexpr Duration kMeasureInterval = std::chrono::seconds(1);  // finer than any scrape

}  // namespace

WorkLoop::WorkLoop(WorkLoopOptions options)
    : options_(std::move(options)),
      last_turn_ns_(options_.clock->Now().time_since_epoch().count()),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

WorkLoop::~WorkLoop() {
  thread_.request_stop();
  options_.queue->Wake();
  thread_.join();
}

void WorkLoop::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    last_turn_ns_ = options_.clock->Now().time_since_epoch().count();
    Turn();
  }
}

void WorkLoop::Turn() {
  const TimePoint now = options_.clock->Now();
  TimePoint until = now + kTurnMax;
  if (const auto next = options_.loop->NextStep()) {
    until = std::min(until, *next);
  }
  if (const auto next = options_.poller->NextDeadline()) {
    until = std::min(until, *next);
  }
  if (may_lead_ && !options_.loop->is_leading()) {
    until = std::min(until, std::max(next_try_, now + kSyncPoll));
  }
  TakeIn(until);
  if (may_lead_ && !options_.loop->is_leading() && next_try_ <= options_.clock->Now()) {
    TryToLead();
  }
  MakePasses();  // some: the news that came meanwhile may be more urgent than the others
  Poll();
  Measure();
}

void WorkLoop::TakeIn(TimePoint until) {
  for (const WorkMessage& message : options_.queue->TakeAll(Deadline::At(until))) {
    TakeIn(message);
  }
}

void WorkLoop::TakeIn(const WorkMessage& message) {
  const TimePoint now = options_.clock->Now();
  if (const auto* update = std::get_if<WatchUpdate>(&message)) {
    options_.loop->Apply(*update, now);
  } else if (const auto* answer = std::get_if<StatusAnswer>(&message)) {
    const kube::ObjectKey pod{answer->group.substr(0, answer->group.find('/')), answer->pod};
    auto finding = options_.poller->Accept(*answer);
    if (finding.document) {
      options_.loop->Accept({pod, *std::move(finding.document), answer->received}, now);
    } else if (finding.is_closed) {
      options_.loop->NoteClosed(pod, now);
    }
  } else if (std::holds_alternative<LeadershipWon>(message)) {
    may_lead_ = true;
  } else {
    may_lead_ = false;
    options_.loop->StandBy();
    options_.metrics->SetLeading(false);
    options_.on_stand_by();
  }
}

void WorkLoop::MakePasses() {
  const TimePoint begin = options_.clock->Now();
  const std::vector<TurnReport> turns = options_.loop->Step(begin);
  const Duration duration = options_.clock->Now() - begin;  // of each: they are made together
  for (const TurnReport& turn : turns) {
    options_.metrics->TurnDone(turn, duration);
  }
}

void WorkLoop::Poll() {
  const TimePoint now = options_.clock->Now();
  for (const ControlLoop::PollChange& change : options_.loop->TakePollChanges()) {
    StatusTargets targets;
    for (const PollTarget& target : change.targets) {
      targets[target.pod] = {
          target.address, "Bearer " + StatusToken(change.job_key), target.interval};
    }
    options_.poller->SetTargets(change.job.namespace_name + "/" + change.job.name, targets, now);
  }
  options_.poller->Process(now);
}

// Leaves for the metrics' thread what only this one may read.
void WorkLoop::Measure() {
  const TimePoint now = options_.clock->Now();
  if (now < next_measure_) {
    return;
  }
  next_measure_ = now + kMeasureInterval;
  const ClusterView& view = *options_.loop->view();
  const ClusterView::Counts counts = view.counts();
  options_.metrics->SetCache(
      {counts.jobs, counts.pods, counts.foreign_pods, counts.nodes, counts.services});
  const auto& queue = options_.loop->controller().queue();
  options_.metrics->SetQueue(queue.depth(), queue.counts().adds, queue.counts().retries);
  std::vector<std::string_view> states;
  for (const JobId& key : view.Jobs()) {
    states.push_back(StateWord(view.FindJob(key)->job.status));
  }
  options_.metrics->SetJobs(states);
}

void WorkLoop::TryToLead() {
  if (!options_.has_synced()) {
    return;
  }
  const Result<std::string> key = options_.master_key();
  const TimePoint now = options_.clock->Now();
  if (!key.ok()) {
    options_.logger->Warn("no key for jobs yet", {{"error", key.error().ToString()}});
    next_try_ = now + kLeadRetry;
    return;
  }
  // What the watches delivered before they were in step waits in the queue.
  TakeIn(now);
  if (!may_lead_) {
    return;
  }
  options_.loop->Lead(*key, options_.clock->Now());
  options_.metrics->SetLeading(true);
  options_.logger->Info("leading", {{"jobs", options_.loop->view()->counts().jobs}});
}

}  // namespace lockstep::control
