#include "operator/controller/control_loop.h"

#include <algorithm>
#include <map>
#include <utility>

#include "operator/api/conditions.h"

namespace lockstep::control {
namespace {

// How long expected news may wait: at least, for each pod of the job, and at most. Choices: a pod
// that takes another's place runs after a tenth of a second where nothing has to be loaded, and
// what is written on the way holds it up; a gang of 500 is looked at once a second, where a look
// costs some milliseconds and its status 80 KB. While a gang comes up, every pod has news several
// times in a second, and what lies between none and all is worth no more than that; the last one to
// run is urgent news.
constexpr Duration kPatienceMin = std::chrono::milliseconds(100);
constexpr Duration kPatiencePerPod = std::chrono::milliseconds(2);
constexpr Duration kPatienceMax = std::chrono::seconds(1);

// Room becomes free in many small pieces; those who wait look at all of them together. The more of
// them wait, the less often.
constexpr Duration kSweepDelay = std::chrono::milliseconds(20);
constexpr Duration kSweepDelayPerJob = std::chrono::milliseconds(2);

ApiClusterParts PartsOf(const ControlLoopParts& parts, World* world) {
  return {world, parts.api, parts.control, parts.publisher, parts.logger};
}

// Whether the gang has its places and has not run yet.
bool ComesUp(const TrainingJobStatus& status) {
  return IsTrue(status, ConditionType::kScheduled) && !IsTrue(status, ConditionType::kRunning) &&
         !IsTrue(status, ConditionType::kRestarting);
}

}  // namespace

ControlLoop::ControlLoop(ControlLoopOptions options,
                         ControlLoopParts parts,
                         TimePoint now,
                         WallTime wall_now)
    : world_(std::move(options.namespaces)),
      cluster_(std::move(options.pods), PartsOf(parts, &world_)),
      controller_(&cluster_, parts.logger, now, wall_now, options.controller),
      start_(now),
      wall_start_(wall_now) {}

void ControlLoop::Apply(const WatchUpdate& update, TimePoint now) {
  News news;
  std::visit([&](const auto& one) { world_.Apply(one, &news); }, update);
  Spread(news, now);
}

void ControlLoop::Accept(PodReport report, TimePoint now) {
  News news;
  cluster_.Accept(std::move(report), &news);
  Spread(news, now);
}

void ControlLoop::NoteClosed(const kube::ObjectKey& pod, TimePoint now) {
  News news;
  cluster_.NoteClosed(pod, now, &news);
  Spread(news, now);
}

void ControlLoop::Lead(const std::string& master_key, TimePoint now) {
  is_leading_ = true;
  cluster_.Lead(master_key);
  for (const JobKey& key : world_.Jobs()) {
    controller_.Notify(key, now);
  }
  sweep_at_ = now;
}

void ControlLoop::StandBy() {
  is_leading_ = false;
  sweep_at_.reset();
  const std::vector<JobKey> jobs = world_.Jobs();
  poll_stale_.insert(jobs.begin(), jobs.end());
}

std::vector<PassReport> ControlLoop::Step(TimePoint now) {
  if (!is_leading_) {
    return {};
  }
  if (sweep_at_.has_value() && *sweep_at_ <= now) {
    sweep_at_.reset();
    for (const JobKey& key : world_.WaitingJobs()) {
      controller_.Notify(key, now);
    }
  }
  cluster_.SetTime(now, wall_start_ + std::chrono::floor<std::chrono::milliseconds>(now - start_));
  std::vector<PassReport> passes = controller_.Step(now);
  for (const PassReport& pass : passes) {
    poll_stale_.insert(pass.key);
  }
  Spread(cluster_.TakeNews(), now);
  return passes;
}

std::optional<TimePoint> ControlLoop::NextStep() const {
  if (!is_leading_) {
    return std::nullopt;
  }
  const std::optional<TimePoint> next = controller_.NextStep();
  if (!next.has_value() || !sweep_at_.has_value()) {
    return next.has_value() ? next : sweep_at_;
  }
  return std::min(*next, *sweep_at_);
}

std::vector<ControlLoop::PollChange> ControlLoop::TakePollChanges() {
  std::vector<PollChange> changes;
  for (const JobKey& key : std::exchange(poll_stale_, {})) {
    changes.push_back(PollChangeOf(key));
  }
  return changes;
}

ControlLoop::PollChange ControlLoop::PollChangeOf(const JobKey& key) const {
  PollChange change{key, "", {}};
  const StoredJob* const stored = world_.FindJob(key);
  if (stored == nullptr || !stored->problem.empty() || !is_leading_) {
    return change;
  }
  std::vector<const kube::Pod*> pods;
  PollKnowledge known;
  for (const kube::Item<kube::Pod>* item : world_.PodsOf(key)) {
    pods.push_back(item->object.get());
    const PodReports::Entry* const entry = cluster_.reports().Find(key, item->key.name);
    if (entry != nullptr && entry->report.has_value()) {
      known.documents[item->key.name] = &entry->report->document;
    }
    if (entry != nullptr && entry->closed_at.has_value()) {
      known.closed.insert(item->key.name);
    }
  }
  change.job_key = cluster_.JobKeyOf(stored->job.metadata.uid);
  change.targets = PollPlan(stored->job, pods, known);
  return change;
}

void ControlLoop::Spread(const News& news, TimePoint now) {
  if (!is_leading_) {
    return;  // every job is looked at when we lead
  }
  for (const JobKey& key : world_.ByAge(news.urgent)) {
    controller_.Notify(key, now);
  }
  for (const JobKey& key : news.calm) {
    controller_.NotifyAt(key, now + PatienceFor(key));
  }
  if (news.frees_room && !sweep_at_.has_value()) {
    const auto waiting = static_cast<int64_t>(world_.WaitingJobs().size());
    if (waiting > 0) {
      sweep_at_ = now + kSweepDelay + waiting * kSweepDelayPerJob;
    }
  }
}

Duration ControlLoop::PatienceFor(const JobKey& key) const {
  const StoredJob* const stored = world_.FindJob(key);
  if (stored != nullptr && ComesUp(stored->job.status)) {
    return kPatienceMax;
  }
  const auto pods = static_cast<int64_t>(world_.PodCountOf(key));
  return std::clamp<Duration>(pods * kPatiencePerPod, kPatienceMin, kPatienceMax);
}

}  // namespace lockstep::control
