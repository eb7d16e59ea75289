#include "operator/controller/controller.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/stall.h"

namespace lockstep::control {
namespace {

// Whether an effect's answer means that the world is as it was meant to be.
bool HasWorked(const Effect& effect, const Status& status) {
  if (status.ok()) {
    return true;
  }
  if (std::holds_alternative<CreatePod>(effect)) {
    return status.error().code() == ErrorCode::kAlreadyExists;
  }
  return status.error().code() == ErrorCode::kNotFound &&
         !std::holds_alternative<WriteObject>(effect);  // a create finds no such kind
}

// Whether the turn has to be repeated if the effect failed. Some are best effort: who misses a
// control message learns the same from its connections, and a key is mostly there.
bool MustSucceed(const Effect& effect) {
  return !std::holds_alternative<SendControl>(effect) && !std::holds_alternative<RenewKey>(effect);
}

// Whether the server will not have it, as a policy or a missing right has it.
bool IsRefused(const Error& error) {
  return error.code() == ErrorCode::kInvalidArgument;
}

// Gives the job's waiting the words that it has in `stored`, where it waits for the same reason;
// whether that changed anything.
bool TakeBackWords(const TrainingJobStatus& stored, TrainingJobStatus* status) {
  const Condition* const before = FindCondition(stored, ConditionType::kScheduled);
  for (Condition& now : status->conditions) {
    if (now.type == ConditionType::kScheduled && !now.is_true && before != nullptr &&
        !before->is_true && before->reason == now.reason && before->message != now.message) {
      now.message = before->message;
      return true;
    }
  }
  return false;
}

}  // namespace

Controller::Controller(Cluster* cluster,
                       Logger* logger,
                       Calendar calendar,
                       ControllerOptions options)
    : cluster_(cluster),
      logger_(logger),
      options_(options),
      calendar_(calendar),
      queue_({options.retry_delay_min, options.retry_delay_max}) {}

void Controller::SetCalendar(Calendar calendar) {
  LOCKSTEP_CHECK(is_idle(), "the calendar cannot change while a reconcile is in progress");
  calendar_ = calendar;
}

void Controller::Notify(const JobId& key, TimePoint now) {
  queue_.Add(key, now);
}

void Controller::NotifyAt(const JobId& key, TimePoint when) {
  queue_.AddAt(key, when);
}

std::vector<TurnReport> Controller::Step(TimePoint now) {
  std::vector<TurnReport> reports;
  std::size_t begun_count = 0;
  bool has_news = true;
  while (std::exchange(has_news, false)) {
    while (begun_count < options_.jobs_at_once && MayBegin()) {
      const auto work = queue_.Take(now);
      if (!work) {
        break;
      }
      JobTurn turn;
      turn.report = {work->key, TurnResult::kDone, work->waited, {}};
      turn.begun = now;
      turns_.emplace(work->key, std::move(turn));
      cluster_->StartLook(work->key);
      ++begun_count;
    }
    for (const ClusterAnswer& answer : cluster_->TakeAnswers()) {
      has_news = true;
      const auto turn = turns_.find(answer.key);
      LOCKSTEP_CHECK(turn != turns_.end(),
                     "an answer came for a reconcile that is not in progress");
      if (GoOn(&turn->second, answer.statuses, now)) {
        Finish(&turn->second, now);
        reports.push_back(turn->second.report);
        turns_.erase(turn);
      }
    }
  }
  return reports;
}

void Controller::Abandon(TimePoint now) {
  cluster_->Abandon();
  written_at_.clear();  // another may write from now on
  refused_statuses_.clear();
  for (const auto& [key, turn] : std::exchange(turns_, {})) {
    queue_.Done(key, now);
  }
}

bool Controller::GoOn(JobTurn* turn, const std::vector<Status>& answers, TimePoint now) {
  switch (turn->stage) {
    case JobTurn::Stage::kLooking:
      if (!answers.front().ok()) {
        NoteLookFailure(turn, answers.front().error());
        return true;
      }
      return DecideOn(turn, now);
    case JobTurn::Stage::kWriting:
      // Nothing has happened yet for a job whose status is not accepted: the effects, and what
      // people would hear of them, wait for a decision whose status is.
      if (!answers.front().ok()) {
        NoteWriteFailure(turn, answers.front().error());
        return true;
      }
      written_at_[turn->report.key] = now;
      refused_statuses_.erase(turn->report.key);
      if (turn->is_put_back) {
        NotePutBack(turn, now);
      }
      return Act(turn);
    case JobTurn::Stage::kActing:
      if (!AreDone(*turn, answers)) {
        turn->report.result = TurnResult::kFailed;
      }
      PlanWakeup(turn);
      return true;
  }
  return true;
}

bool Controller::DecideOn(JobTurn* turn, TimePoint now) {
  const JobId& key = turn->report.key;
  cluster_->Ask(key);
  Result<JobSight> seen = cluster_->See(key);
  if (!seen.ok()) {
    NoteLookFailure(turn, seen.error());
    return true;
  }
  turn->job = std::move(seen->job);
  const Observed& observed = seen->observed;
  turn->decision = observed.job_problem.empty() ? Decide(turn->job, observed, calendar_.At(now))
                                                : StallJob(turn->job, observed, calendar_.At(now));
  const Decision& decision = turn->decision;
  if (!observed.job_problem.empty() && !decision.events.empty()) {
    logger_->Warn(
        "the operator cannot read the job",
        {{"job", key.name}, {"namespace", key.namespace_name}, {"problem", observed.job_problem}});
  }
  if (decision.next_wakeup.has_value()) {
    turn->wakeup = now + (*decision.next_wakeup - calendar_.At(now));
  }
  const bool has_news = decision.status != turn->job.status;
  turn->is_put_back = !has_news && observed.is_status_foreign;
  if (const auto later = WriteTime(*turn, now)) {
    turn->wakeup = std::min(*later, turn->wakeup.value_or(*later));
  } else if (has_news || turn->is_put_back) {
    turn->job.status = decision.status;
    turn->stage = JobTurn::Stage::kWriting;
    cluster_->StartStatusWrite(key, turn->job);
    return false;
  } else {
    refused_statuses_.erase(key);  // what is stored is what it would write
  }
  return Act(turn);
}

// When the status that was decided is to be written, where that is not now.
std::optional<TimePoint> Controller::WriteTime(const JobTurn& turn, TimePoint now) const {
  const JobId& key = turn.report.key;
  return turn.is_put_back ? put_back_pace_.NotBefore(key, now) : FiguresTime(turn, now);
}

// One who insists is told of once, and then answered ever more slowly.
void Controller::NotePutBack(JobTurn* turn, TimePoint now) {
  const JobId& key = turn->report.key;
  if (!put_back_pace_.Note(key, now)) {
    return;
  }
  logger_->Warn("somebody else wrote into the status of the job; the operator restores the status",
                {{"job", key.name}, {"namespace", key.namespace_name}});
  turn->decision.events.push_back(
      {EventType::kWarning,
       "StatusOverwritten",
       "somebody else wrote into the status, which only the operator may write. The operator "
       "restores the status, each time after a longer wait"});
}

// When a status that has nothing new but figures is to be written; null when it has more, or when
// enough time has passed. Each kind of figures has its pace, and the quickest decides.
std::optional<TimePoint> Controller::FiguresTime(const JobTurn& turn, TimePoint now) const {
  const Decision& decision = turn.decision;
  const TrainingJobStatus& stored = turn.job.status;
  const auto written = written_at_.find(turn.report.key);
  if (written == written_at_.end() || !decision.effects.empty() || !decision.events.empty() ||
      !decision.metrics.empty() || decision.status == stored) {
    return std::nullopt;
  }
  TrainingJobStatus status = decision.status;
  Duration interval = Duration::max();
  if (status.progress != stored.progress) {
    status.progress = stored.progress;
    interval = options_.progress_interval;
  }
  if (status.roles != stored.roles) {
    status.roles = stored.roles;
    interval = std::min(interval, options_.counts_interval);
  }
  if (TakeBackWords(stored, &status)) {
    interval = std::min(interval, options_.words_interval);
  }
  if (status.queue.has_value() && stored.queue.has_value() && status.queue != stored.queue) {
    status.queue = stored.queue;
    interval = std::min(interval, options_.words_interval);
  }
  if (interval == Duration::max()) {
    return std::nullopt;
  }
  const TimePoint due = written->second + interval;
  return status == stored && now < due ? std::optional(due) : std::nullopt;
}

void Controller::NoteLookFailure(JobTurn* turn, const Error& error) {
  const JobId& key = turn->report.key;
  if (error.code() == ErrorCode::kNotFound) {
    put_back_pace_.Forget(key);
    refused_statuses_.erase(key);
    written_at_.erase(key);  // the job is gone, and with it everything to do for it
    return;
  }
  logger_->Warn(
      "the job's objects could not be read",
      {{"job", key.name}, {"namespace", key.namespace_name}, {"error", error.ToString()}});
  turn->report.result = TurnResult::kFailed;
}

void Controller::NoteWriteFailure(JobTurn* turn, const Error& error) {
  const JobId& key = turn->report.key;
  logger_->Warn(
      "the job's status could not be written",
      {{"job", key.name}, {"namespace", key.namespace_name}, {"error", error.ToString()}});
  if (error.code() != ErrorCode::kNotFound) {
    turn->report.result = TurnResult::kFailed;
  }
  if (IsRefused(error)) {
    refused_statuses_[key] = error.message();
    TellOfRefusal(key,
                  "status",
                  {EventType::kWarning,
                   "StatusRefused",
                   "the API server refuses the job's status: " + error.message() +
                       "; the job shows an older status until the operator may write it"});
  }
}

// Of what is not stored in the job's status, or cannot be: events and metrics go another way.
void Controller::TellOfRefusal(const JobId& key, const std::string& what, Event event) {
  Decision told;
  told.events.push_back(std::move(event));
  told.metrics.push_back({Metric::kRefusedWrites, what});
  cluster_->Publish(key, told);
}

bool Controller::Act(JobTurn* turn) {
  const JobId& key = turn->report.key;
  cluster_->Publish(key, turn->decision);
  turn->effects = std::move(turn->decision.effects);
  if (turn->effects.empty()) {
    PlanWakeup(turn);
    return true;
  }
  for (const Effect& effect : turn->effects) {
    logger_->Debug(DescribeEffect(effect), {{"job", key.name}});
  }
  turn->stage = JobTurn::Stage::kActing;
  cluster_->StartEffects(key, turn->job, turn->effects);
  return false;
}

// Whether the world is as the effects were to make it.
bool Controller::AreDone(const JobTurn& turn, const std::vector<Status>& answers) {
  const JobId& key = turn.report.key;
  LOCKSTEP_CHECK(answers.size() == turn.effects.size(),
                 "the number of answers must equal the number of actions");
  bool are_done = true;
  int64_t aborted_count = 0;
  std::vector<std::size_t> failed;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Effect& effect = turn.effects[i];
    if (HasWorked(effect, answers[i])) {
      continue;
    }
    if (answers[i].error().code() == ErrorCode::kAborted) {
      ++aborted_count;
      are_done = false;
      continue;
    }
    failed.push_back(i);
    are_done = are_done && !MustSucceed(effect);
  }
  for (const std::size_t index : failed) {
    const auto* const removal = std::get_if<DeletePod>(&turn.effects[index]);
    if (removal != nullptr && IsRefused(answers[index].error())) {
      TellOfRefusal(key,
                    "pod-deletion",
                    {EventType::kWarning,
                     "DeletionRefused",
                     "the API server refuses to delete pod " + removal->name + ": " +
                         answers[index].error().message() + "; the operator tries again"});
      break;  // one tells of all
    }
  }
  // A gang of hundreds that a quota refuses is one line at each try.
  if (!failed.empty()) {
    logger_->Warn("actions for the job failed",
                  {{"job", key.name},
                   {"namespace", key.namespace_name},
                   {"count", static_cast<int64_t>(failed.size())},
                   {"first", DescribeEffect(turn.effects[failed.front()])},
                   {"error", answers[failed.front()].error().ToString()}});
  }
  if (aborted_count > 0) {
    logger_->Info(
        "actions for the job were skipped: an object that they need does not exist, or the job "
        "has changed",
        {{"job", key.name}, {"namespace", key.namespace_name}, {"count", aborted_count}});
  }
  return are_done;
}

void Controller::PlanWakeup(JobTurn* turn) {
  if (!turn->wakeup) {
    return;
  }
  queue_.AddAt(turn->report.key, *turn->wakeup);
  if (turn->report.result == TurnResult::kDone) {
    turn->report.result = TurnResult::kWaiting;
  }
}

void Controller::Finish(JobTurn* turn, TimePoint now) {
  const JobId& key = turn->report.key;
  turn->report.taken = now - turn->begun;
  if (turn->report.result == TurnResult::kFailed) {
    queue_.AddAfterFailure(key, now);
  } else {
    queue_.Forget(key);
  }
  queue_.Done(key, now);
}

}  // namespace lockstep::control
