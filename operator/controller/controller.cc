#include "operator/controller/controller.h"

#include <algorithm>

#include "common/base/check.h"
#include "operator/reconcile/decide.h"

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
    : cluster_(cluster), logger_(logger), options_(options), start_(now), wall_start_(wall_now) {}

void Controller::Notify(const JobKey& key) {
  changed_.insert(key);
}

bool Controller::Step(TimePoint now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const JobKey key = timers_.begin()->second;
    CancelTimer(key);
    changed_.insert(key);
  }
  if (changed_.empty()) {
    return false;
  }
  // Round robin by name: a job that always has news does not starve the others.
  auto next = changed_.upper_bound(last_stepped_);
  if (next == changed_.end()) {
    next = changed_.begin();
  }
  const JobKey key = *next;
  changed_.erase(next);
  last_stepped_ = key;
  if (RunPass(key, now)) {
    failures_.erase(key);
  } else {
    ScheduleRetry(key, now);
  }
  return true;
}

std::optional<TimePoint> Controller::NextStep() const {
  if (!changed_.empty()) {
    return TimePoint{};
  }
  if (timers_.empty()) {
    return std::nullopt;
  }
  return timers_.begin()->first;
}

bool Controller::RunPass(const JobKey& key, TimePoint now) {
  CancelTimer(key);
  Result<TrainingJob> read = cluster_->ReadJob(key);
  if (!read.ok()) {
    return NoteReadFailure(key, read.error());
  }
  TrainingJob job = std::move(read).value();
  const Result<Observed> observed = cluster_->Observe(key);
  if (!observed.ok()) {
    return NoteReadFailure(key, observed.error());
  }
  const Decision decision = Decide(job, *observed, WallAt(now));
  if (decision.status != job.status) {
    job.status = decision.status;
    if (const Status written = cluster_->WriteStatus(job); !written.ok()) {
      // Nothing has happened yet: the effects, and what people would hear of them, wait for a
      // decision whose status was accepted.
      logger_->Warn("status not written",
                    {{"job", key.name},
                     {"namespace", key.namespace_name},
                     {"error", written.error().ToString()}});
      return written.error().code() == ErrorCode::kNotFound;
    }
  }
  const bool is_done = ApplyEffects(key, decision.effects);
  cluster_->Publish(key, decision);
  if (decision.next_wakeup.has_value()) {
    SetTimer(key, now + (*decision.next_wakeup - WallAt(now)));
  }
  return is_done;
}

bool Controller::NoteReadFailure(const JobKey& key, const Error& error) {
  if (error.code() == ErrorCode::kNotFound) {
    return true;  // the job is gone, and with it everything to do for it
  }
  logger_->Warn(
      "job not observed",
      {{"job", key.name}, {"namespace", key.namespace_name}, {"error", error.ToString()}});
  return false;
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

void Controller::SetTimer(const JobKey& key, TimePoint when) {
  const auto existing = timer_of_.find(key);
  if (existing != timer_of_.end() && existing->second <= when) {
    return;
  }
  CancelTimer(key);
  timer_of_[key] = when;
  timers_.emplace(when, key);
}

void Controller::CancelTimer(const JobKey& key) {
  const auto existing = timer_of_.find(key);
  if (existing != timer_of_.end()) {
    timers_.erase({existing->second, key});
    timer_of_.erase(existing);
  }
}

void Controller::ScheduleRetry(const JobKey& key, TimePoint now) {
  const int failure_count = failures_[key]++;
  Duration delay = options_.retry_delay_min;
  for (int i = 0; i < failure_count && delay < options_.retry_delay_max; ++i) {
    delay *= 2;
  }
  SetTimer(key, now + std::min(delay, options_.retry_delay_max));
}

}  // namespace lockstep::control
