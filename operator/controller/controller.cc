#include "operator/controller/controller.h"

#include <algorithm>

#include "common/base/check.h"
#include "operator/reconcile/decide.h"
#include "operator/reconcile/reject.h"

namespace lockstep::control {
namespace {

// Whether an effect's answer means that the world is as it was meant to be.
bool IsDone(const Effect& effect, const Status& status) {
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

void Controller::Notify(const JobKey& key, TimePoint now) {
  queue_.Add(key, now);
}

void Controller::NotifyAt(const JobKey& key, TimePoint when) {
  queue_.AddAt(key, when);
}

std::optional<PassReport> Controller::Step(TimePoint now) {
  const auto work = queue_.Take(now);
  if (!work) {
    return std::nullopt;
  }
  const PassResult result = RunPass(work->key, now);
  if (result == PassResult::kFailed) {
    queue_.AddAfterFailure(work->key, now);
  } else {
    queue_.Forget(work->key);
  }
  queue_.Done(now);
  return PassReport{work->key, result, work->waited};
}

PassResult Controller::RunPass(const JobKey& key, TimePoint now) {
  Result<TrainingJob> read = cluster_->ReadJob(key);
  if (!read.ok()) {
    return NoteReadFailure(key, read.error());
  }
  TrainingJob job = std::move(read).value();
  const Result<Observed> observed = cluster_->Observe(key);
  if (!observed.ok()) {
    return NoteReadFailure(key, observed.error());
  }
  const Decision decision = observed->job_problem.empty()
                                ? Decide(job, *observed, WallAt(now))
                                : RejectJob(job, *observed, observed->job_problem, WallAt(now));
  std::optional<TimePoint> wakeup;
  if (decision.next_wakeup.has_value()) {
    wakeup = now + (*decision.next_wakeup - WallAt(now));
  }
  if (const auto later = ProgressTime(key, decision, job, now)) {
    wakeup = std::min(*later, wakeup.value_or(*later));
  } else if (decision.status != job.status) {
    job.status = decision.status;
    if (const Status written = cluster_->WriteStatus(job); !written.ok()) {
      // Nothing has happened yet: the effects, and what people would hear of them, wait for a
      // decision whose status was accepted.
      logger_->Warn("status not written",
                    {{"job", key.name},
                     {"namespace", key.namespace_name},
                     {"error", written.error().ToString()}});
      return written.error().code() == ErrorCode::kNotFound ? PassResult::kDone
                                                            : PassResult::kFailed;
    }
    written_at_[key] = now;
  }
  const bool is_done = ApplyEffects(key, decision.effects);
  cluster_->Publish(key, decision);
  if (wakeup) {
    queue_.AddAt(key, *wakeup);
  }
  if (!is_done) {
    return PassResult::kFailed;
  }
  return wakeup ? PassResult::kWaiting : PassResult::kDone;
}

// When a status that has nothing new but progress is to be written; null when it has more, or when
// enough time has passed.
std::optional<TimePoint> Controller::ProgressTime(const JobKey& key,
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

PassResult Controller::NoteReadFailure(const JobKey& key, const Error& error) {
  if (error.code() == ErrorCode::kNotFound) {
    written_at_.erase(key);
    return PassResult::kDone;  // the job is gone, and with it everything to do for it
  }
  logger_->Warn(
      "job not observed",
      {{"job", key.name}, {"namespace", key.namespace_name}, {"error", error.ToString()}});
  return PassResult::kFailed;
}

bool Controller::ApplyEffects(const JobKey& key, const std::vector<Effect>& effects) {
  if (effects.empty()) {
    return true;
  }
  for (const Effect& effect : effects) {
    logger_->Debug(DescribeEffect(effect), {{"job", key.name}});
  }
  const std::vector<Status> answers = cluster_->Apply(key, effects);
  LOCKSTEP_CHECK(answers.size() == effects.size(),
                 std::to_string(answers.size()) + " answers to " + std::to_string(effects.size()) +
                     " effects");
  bool is_done = true;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (IsDone(effects[i], answers[i])) {
      continue;
    }
    logger_->Warn("effect failed",
                  {{"job", key.name},
                   {"namespace", key.namespace_name},
                   {"effect", DescribeEffect(effects[i])},
                   {"error", answers[i].error().ToString()}});
    is_done = is_done && !MustSucceed(effects[i]);
  }
  return is_done;
}

WallTime Controller::WallAt(TimePoint now) const {
  return wall_start_ + std::chrono::floor<std::chrono::milliseconds>(now - start_);
}

}  // namespace lockstep::control
