#include "operator/cmd/work_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/plural.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

constexpr Duration kTurnMax = std::chrono::seconds(1);
constexpr Duration kLeadRetry = std::chrono::milliseconds(500);  // choice
constexpr Duration kSyncPoll = std::chrono::milliseconds(20);    // choice: unseen in "2 s to ready"

// What is under way is finished when the program ends: within a pod's grace of 30 s, with the lease
// still to be given up. What has not ended then is found half done by the next leader.
constexpr Duration kEndTurnsMax = std::chrono::seconds(15);

constexpr Duration kMeasureInterval = std::chrono::seconds(1);  // finer than any scrape

}  // namespace

WorkLoop::WorkLoop(WorkLoopOptions options)
    : options_(std::move(options)),
      right_(options_.writes_end),
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
  EndTurns();
}

void WorkLoop::EndTurns() {
  const Deadline deadline = Deadline::After(options_.clock->Now(), kEndTurnsMax);
  options_.loop->Drain();
  while (!options_.loop->is_idle() && !deadline.HasPassed(options_.clock->Now())) {
    TakeIn(deadline.when());
    TakeTurns();
  }
  options_.loop->StandBy(options_.clock->Now());
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
  if (right_.may_work() && !options_.loop->is_leading()) {
    until = std::min(until, std::max(next_try_, now + kSyncPoll));
  }
  if (const auto next = right_.NextLook()) {
    until = std::min(until, *next);
  }
  if (const auto next = key_.NextLook(); next && MayLookAround()) {
    until = std::min(until, *next);
  }
  TakeIn(until);
  LookForOthers();
  LookAround();
  SettleWay();
  if (right_.may_work() && !options_.loop->is_leading() && next_try_ <= options_.clock->Now()) {
    TryToLead();
  }
  TakeTurns();  // some: the news that came meanwhile may be more urgent than the others
  Poll();
  Measure();
}

void WorkLoop::TakeIn(TimePoint until) {
  for (WorkMessage& message : options_.queue->TakeAll(Deadline::At(until))) {
    TakeIn(std::move(message));
  }
}

void WorkLoop::TakeIn(WorkMessage message) {
  const TimePoint now = options_.clock->Now();
  if (const auto* update = std::get_if<WatchUpdate>(&message)) {
    options_.loop->Apply(*update, now);
  } else if (auto* answered = std::get_if<kube::CallsAnswered>(&message)) {
    options_.loop->Accept(std::move(*answered));
  } else if (const auto* answer = std::get_if<StatusAnswer>(&message)) {
    const kube::ObjectKey pod{answer->group.substr(0, answer->group.find('/')), answer->pod};
    auto finding = options_.poller->Accept(*answer);
    if (finding.document) {
      options_.loop->Accept({pod, *std::move(finding.document), answer->received}, now);
    } else if (finding.is_closed) {
      options_.loop->NoteClosed(pod, now);
    } else if (finding.refusal) {
      options_.metrics->StatusRefused();
      options_.loop->NoteRefused(pod, *finding.refusal, now);
    }
  } else if (const auto* seen = std::get_if<OthersSeen>(&message)) {
    const Result<OthersFinding> finding = options_.judge_others(seen->answers);
    if (finding.ok()) {
      options_.loop->NoteReleases(finding->releases, now);
    }
    right_.OnLook(seen->look, finding, now);
    SettleWay();
  } else if (const auto* key = std::get_if<MasterKeySeen>(&message)) {
    if (key_.IsAwaited(key->look)) {
      key_.OnLook(key->look, JudgeKey(key->found), now);
      SettleKey();
    }
  } else if (const auto* rights = std::get_if<RightsSeen>(&message)) {
    SettleRights(rights->judgement);
  } else if (const auto* schema = std::get_if<SchemaSeen>(&message)) {
    SettleSchema(schema->kinds);
  } else if (auto* groups = std::get_if<PodGroupsSeen>(&message)) {
    options_.loop->NotePodGroups(groups->found, now);
    options_.follow_pod_groups(groups->found);
  } else if (std::holds_alternative<LeadershipWon>(message)) {
    right_.OnLeaseWon(now);
  } else {
    right_.OnLeaseLost();
    SettleWay();
    options_.on_stand_by();
  }
}

void WorkLoop::LookForOthers() {
  if (right_.IsLookDue(options_.clock->Now())) {
    options_.look_for_others(right_.LookBegins());
  }
}

void WorkLoop::LookAround() {
  if (MayLookAround() && key_.IsLookDue(options_.clock->Now())) {
    options_.look_around(key_.LookBegins());
  }
}

// Whoever stands by makes a key that is not there when it leads; a leader has one to keep.
Status WorkLoop::JudgeKey(const Result<std::string>& found) {
  if (!found.ok()) {
    return found.error();
  }
  if (!options_.loop->is_leading()) {
    return OkStatus();
  }
  Status kept = options_.keep_master_key(*found, held_key_);
  if (found->empty() && kept.ok()) {
    options_.logger->Warn("somebody deleted the operator's key: the leader writes the key again",
                          {{"jobs", options_.loop->view()->counts().jobs}});
  }
  return kept;
}

// Whether that is news.
bool WorkLoop::Tell(const std::string& check, const std::string& why) {
  std::string& told = told_[check];
  if (why == told) {
    return false;
  }
  told = why;
  options_.tell_trouble(check, why);
  return true;
}

// A server that does not answer tells nothing.
void WorkLoop::SettleRights(const Status& judgement) {
  if (!judgement.ok() && judgement.error().code() == ErrorCode::kUnavailable) {
    return;
  }
  const std::string why = judgement.ok() ? "" : judgement.error().ToString();
  if (!Tell(kRightsCheck, why)) {
    return;
  }
  if (why.empty()) {
    options_.logger->Info("this process is allowed to read its objects in the API server again");
  } else {
    options_.logger->Warn("this process is not allowed to read the objects that it needs",
                          {{"error", why}});
  }
}

void WorkLoop::SettleKey() {
  if (!Tell(kCanLeadCheck, key_.why())) {
    return;
  }
  if (key_.why().empty()) {
    options_.logger->Info("the operator's key is available again");
  } else if (MayLookAround()) {
    options_.logger->Warn(options_.loop->is_leading() ? "the operator's key has changed"
                                                      : "this process could not lead",
                          {{"error", key_.why()}});
  }
}

// Where the schema cannot be read nothing is known of it: the operator works on as before.
void WorkLoop::SettleSchema(const Result<std::vector<ServedKind>>& kinds) {
  if (!kinds.ok()) {
    const std::string why = kinds.error().ToString();
    if (kinds.error().code() != ErrorCode::kUnavailable && why != unread_schema_) {
      options_.logger->Warn("the CRDs in the cluster cannot be compared with those of the operator",
                            {{"error", why}});
      unread_schema_ = why;
    }
    return;
  }
  unread_schema_.clear();
  for (const ServedKind& kind : *kinds) {
    options_.metrics->SetMissingFields(kind.kind, kind.missing.size());
  }
  const std::string why = DescribeMissing(*kinds);
  if (!Tell(kSchemaCheck, why)) {
    return;
  }
  if (why.empty()) {
    options_.logger->Info("the CRDs in the cluster have every field that this operator uses");
  } else {
    options_.logger->Warn("the CRDs in the cluster are older than this operator", {{"error", why}});
    options_.send_event({true, "DefinitionsTooOld", "Compare", why});
  }
}

// Compares the clocks, and corrects a leader's calendar.
void WorkLoop::SettleClock() {
  const TimePoint now = options_.clock->Now();
  clock_watch_.Look(options_.clock->WallNow(), options_.server_clock->At(now));
  options_.metrics->SetClockOffset(clock_watch_.offset());
  const bool is_off = !clock_watch_.why().empty();
  if (is_off != clock_was_off_) {
    clock_was_off_ = is_off;
    if (is_off) {
      options_.logger->Warn("the clocks differ", {{"error", clock_watch_.why()}});
    } else {
      options_.logger->Info("the operator's clock and the API server's agree again");
    }
  }
  Tell(kClockCheck, clock_watch_.why());
  if (!options_.loop->is_leading()) {
    return;
  }
  if (const auto time = clock_watch_.Correct(options_.loop->controller().calendar().At(now), now)) {
    options_.logger->Warn("time limits use another clock from now on",
                          {{"time", FormatRfc3339(*time)}});
    options_.loop->StandBy(now);
    options_.loop->Lead(held_key_, now, *time);
  }
}

void WorkLoop::SettleStatusWrites() {
  const auto& refused = options_.loop->controller().refused_statuses();
  std::string why;
  if (!refused.empty()) {
    const auto& [job, words] = *refused.begin();
    why = "the API server refuses the status of " +
          Plural(static_cast<int64_t>(refused.size()), "job") + " (the first is " +
          job.namespace_name + "/" + job.name + ": " + words +
          "). Such a job shows an older state until the operator is allowed to update "
          "trainingjobs/status";
  }
  const bool is_first = told_[kStatusCheck].empty();
  if (Tell(kStatusCheck, why) && why.empty()) {
    options_.logger->Info("the API server accepts the status of all jobs again");
  } else if (is_first && !why.empty()) {
    options_.logger->Warn("status writes are refused", {{"error", why}});
  }
}

// Does as the right of way says, at once.
void WorkLoop::SettleWay() {
  const TimePoint now = options_.clock->Now();
  if (!right_.may_work() && options_.loop->is_leading()) {
    options_.loop->StandBy(now);
    held_key_.clear();
    options_.metrics->SetLeading(false);
  }
  const std::pair way(right_.GivesWay(now), right_.is_superfluous());
  if (way != std::exchange(told_way_, way)) {
    options_.tell_way(way.first, way.second);
  }
  if (std::string why = right_.why(); why != told_why_) {
    if (!why.empty()) {
      options_.logger->Warn(
          right_.may_work() ? "other operators may be active" : "this process does not lead",
          {{"error", why}});
    }
    told_why_ = std::move(why);
  }
}

void WorkLoop::TakeTurns() {
  for (const TurnReport& turn : options_.loop->Step(options_.clock->Now())) {
    options_.metrics->TurnDone(turn);
  }
}

void WorkLoop::Poll() {
  const TimePoint now = options_.clock->Now();
  for (const ControlLoop::PollChange& change : options_.loop->TakePollChanges()) {
    StatusTargets targets;
    for (const PollTarget& target : change.targets) {
      StatusTarget asked{target.address, change.job_key, target.interval};
      asked.answer_bytes_max = change.answer_bytes_max;
      targets[target.pod] = std::move(asked);
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
  SettleClock();
  SettleStatusWrites();
  const ClusterView& view = *options_.loop->view();
  const ClusterView::Counts counts = view.counts();
  options_.metrics->SetCache(
      {counts.jobs, counts.pods, counts.foreign_pods, counts.nodes, counts.services});
  options_.metrics->SetUnreadable(counts.unreadable_jobs, counts.unreadable_queues);
  const auto& queue = options_.loop->controller().queue();
  options_.metrics->SetQueue(queue.depth(), queue.counts().adds, queue.counts().retries);
  std::vector<std::string_view> states;
  for (const JobId& key : view.Jobs()) {
    states.push_back(StateWord(view.FindJob(key)->job.status));
  }
  options_.metrics->SetJobs(states);
  // By the clock that conditions are dated by. A standby tells of no queues: rounds are the
  // leader's.
  const WallTime wall_now = clock_watch_.TrustedNow();
  const bool is_leading = options_.loop->is_leading();
  options_.metrics->SetQueues(
      is_leading ? view.MeasuredQueues() : std::map<std::string, QueueStatus>(), wall_now);
  options_.metrics->SetSuspectNodes(is_leading ? view.CountSuspectNodes(wall_now) : 0);
  options_.metrics->SetRounds(options_.loop->round_count());
}

void WorkLoop::TryToLead() {
  if (!options_.has_synced()) {
    return;
  }
  const Result<std::string> key = options_.find_master_key();
  key_.OnTry(key.ok() ? OkStatus() : Status(key.error()), options_.clock->Now());
  SettleKey();
  if (!key.ok()) {
    if (std::string why = key.error().ToString(); failed_try_ != why) {
      options_.logger->Warn("this process does not lead yet", {{"error", why}});
      failed_try_ = std::move(why);
    }
    next_try_ = options_.clock->Now() + kLeadRetry;
    return;
  }
  failed_try_.clear();
  // What the watches delivered before they were in step waits in the queue.
  TakeIn(options_.clock->Now());
  if (!right_.may_work()) {
    return;
  }
  SettleClock();
  options_.loop->Lead(*key, options_.clock->Now(), clock_watch_.TrustedNow());
  held_key_ = *key;
  options_.metrics->SetLeading(true);
  options_.logger->Info("leading", {{"jobs", options_.loop->view()->counts().jobs}});
}

}  // namespace lockstep::control
