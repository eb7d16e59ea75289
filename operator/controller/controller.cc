#include "operator/controller/controller.h"

#include <algorithm>

#include "common/base/check.h"
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
  return status.error().code() == ErrorCode::kNotFound;
}

// Whether the pass has to be repeated if the effect failed. A control message is best effort: the
// receiver learns the same from its connections.
bool MustSucceed(const Effect& effect) {
  return !std::holds_alternative<SendControl>(effect);
}

}  // namespace

Controller::Controller(
    Cluster* cluster, Logger* logger, TimePoint now, WallTime wall_now, ControllerOptions options)
    : cluster_(cluster),
      logger_(logger),
      options_(options),
      start_(now),
      wall_start_(wall_now),
      queue_({options.retry_delay_min, options.retry_delay_max}) {}

void Controller::Notify(const JobId& key, TimePoint now) {
  queue_.Add(key, now);
}

void Controller::NotifyAt(const JobId& key, TimePoint when) {
  queue_.AddAt(key, when);
}

std::vector<TurnReport> Controller::Step(TimePoint now) {
  std::vector<JobTurn> turns;
  std::size_t effect_count = 0;
  while (turns.size() < options_.jobs_at_once && effect_count < options_.effects_at_once) {
    const auto work = queue_.Take(now);
    if (!work) {
      break;
    }
    turns.push_back(Gather(*work, now));
    effect_count += turns.back().decision.effects.size();
  }
  WriteStatuses(&turns, now);
  ApplyEffects(&turns);
  std::vector<TurnReport> reports;
  for (JobTurn& turn : turns) {
    Finish(&turn, now);
    reports.push_back(turn.report);
  }
  return reports;
}

Controller::JobTurn Controller::Gather(const kube::WorkQueue<JobId>::Work& work, TimePoint now) {
  const JobId& key = work.key;
  JobTurn turn;
  turn.report = {key, TurnResult::kDone, work.waited};
  Result<TrainingJob> read = cluster_->ReadJob(key);
  if (!read.ok()) {
    turn.report.result = NoteReadFailure(key, read.error());
    turn.is_over = true;
    return turn;
  }
  turn.job = std::move(read).value();
  const Result<Observed> observed = cluster_->Observe(key);
  if (!observed.ok()) {
    turn.report.result = NoteReadFailure(key, observed.error());
    turn.is_over = true;
    return turn;
  }
  turn.decision = observed->job_problem.empty()
                      ? Decide(turn.job, *observed, WallAt(now))
                      : StallJob(turn.job, observed->job_problem, WallAt(now));
  if (turn.decision.next_wakeup.has_value()) {
    turn.wakeup = now + (*turn.decision.next_wakeup - WallAt(now));
  }
  if (const auto later = ProgressTime(key, turn.decision, turn.job, now)) {
    turn.wakeup = std::min(*later, turn.wakeup.value_or(*later));
  } else if (turn.decision.status != turn.job.status) {
    turn.job.status = turn.decision.status;
    turn.has_new_status = true;
    cluster_->Reserve(turn.job);
  }
  return turn;
}

// Nothing has happened yet for a job whose status is not accepted: the effects, and what people
// would hear of them, wait for a decision whose status is.
void Controller::WriteStatuses(std::vector<JobTurn>* turns, TimePoint now) {
  std::vector<JobTurn*> writing;
  std::vector<TrainingJob> jobs;
  for (JobTurn& turn : *turns) {
    if (turn.has_new_status) {
      writing.push_back(&turn);
      jobs.push_back(std::move(turn.job));
    }
  }
  if (jobs.empty()) {
    return;
  }
  const std::vector<Status> answers = cluster_->WriteStatuses(jobs);
  LOCKSTEP_CHECK(answers.size() == jobs.size(), "every status has an answer");
  for (std::size_t i = 0; i < writing.size(); ++i) {
    TurnReport* const report = &writing[i]->report;
    if (answers[i].ok()) {
      written_at_[report->key] = now;
      continue;
    }
    logger_->Warn("status not written",
                  {{"job", report->key.name},
                   {"namespace", report->key.namespace_name},
                   {"error", answers[i].error().ToString()}});
    report->result =
        answers[i].error().code() == ErrorCode::kNotFound ? TurnResult::kDone : TurnResult::kFailed;
    writing[i]->is_over = true;
  }
}

// When a status that has nothing new but progress is to be written; null when it has more, or when
// enough time has passed.
std::optional<TimePoint> Controller::ProgressTime(const JobId& key,
                                                  const Decision& decision,
                                                  const TrainingJob& job,
                                                  TimePoint now) const {
  const auto written = written_at_.find(key);
  if (written == written_at_.end() || written->second + options_.progress_interval <= now ||
      !decision.effects.empty() || !decision.events.empty() || !decision.metrics.empty() ||
      decision.status == job.status) {
    return std::nullopt;
  }
  TrainingJobStatus status = decision.status;
  status.progress = job.status.progress;
  if (status != job.status) {
    return std::nullopt;
  }
  return written->second + options_.progress_interval;
}

TurnResult Controller::NoteReadFailure(const JobId& key, const Error& error) {
  if (error.code() == ErrorCode::kNotFound) {
    written_at_.erase(key);
    return TurnResult::kDone;  // the job is gone, and with it everything to do for it
  }
  logger_->Warn(
      "job not observed",
      {{"job", key.name}, {"namespace", key.namespace_name}, {"error", error.ToString()}});
  return TurnResult::kFailed;
}

void Controller::ApplyEffects(std::vector<JobTurn>* turns) {
  std::vector<JobTurn*> acting;
  std::vector<JobEffects> wanted;
  for (JobTurn& turn : *turns) {
    if (!turn.is_over && !turn.decision.effects.empty()) {
      for (const Effect& effect : turn.decision.effects) {
        logger_->Debug(DescribeEffect(effect), {{"job", turn.report.key.name}});
      }
      acting.push_back(&turn);
      wanted.push_back({turn.report.key, std::move(turn.decision.effects)});
    }
  }
  if (wanted.empty()) {
    return;
  }
  const std::vector<std::vector<Status>> answers = cluster_->Apply(wanted);
  LOCKSTEP_CHECK(answers.size() == wanted.size(), "the effects of every job have answers");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!IsDone(wanted[i], answers[i])) {
      acting[i]->report.result = TurnResult::kFailed;
    }
  }
}

// Whether the world is as the effects were to make it.
bool Controller::IsDone(const JobEffects& wanted, const std::vector<Status>& answers) {
  const JobId& key = wanted.key;
  LOCKSTEP_CHECK(answers.size() == wanted.effects.size(), "every effect has an answer");
  bool is_done = true;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Effect& effect = wanted.effects[i];
    if (HasWorked(effect, answers[i])) {
      continue;
    }
    logger_->Warn("effect failed",
                  {{"job", key.name},
                   {"namespace", key.namespace_name},
                   {"effect", DescribeEffect(effect)},
                   {"error", answers[i].error().ToString()}});
    is_done = is_done && !MustSucceed(effect);
  }
  return is_done;
}

void Controller::Finish(JobTurn* turn, TimePoint now) {
  const JobId& key = turn->report.key;
  if (!turn->is_over) {
    cluster_->Publish(key, turn->decision);
    if (turn->wakeup) {
      queue_.AddAt(key, *turn->wakeup);
    }
    if (turn->wakeup && turn->report.result == TurnResult::kDone) {
      turn->report.result = TurnResult::kWaiting;
    }
  }
  if (turn->report.result == TurnResult::kFailed) {
    queue_.AddAfterFailure(key, now);
  } else {
    queue_.Forget(key);
  }
  queue_.Done(key, now);
}

WallTime Controller::WallAt(TimePoint now) const {
  return wall_start_ + std::chrono::floor<std::chrono::milliseconds>(now - start_);
}

}  // namespace lockstep::control
