#include "operator/controller/control_loop.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/contract/status/status_document.h"
#include "operator/api/status/conditions.h"

namespace lockstep::control {
namespace {

// How long expected news may wait: at least, for each pod of the job, and at most. Choices: a pod
// that takes another's place runs after a tenth of a second where nothing has to be loaded, and
// what is written on the way holds it up; a gang of 500 is looked at once a second, where a look
// costs some milliseconds and its status 80 KB.
constexpr Duration kPatienceMin = std::chrono::milliseconds(100);
constexpr Duration kPatiencePerPod = std::chrono::milliseconds(2);
constexpr Duration kPatienceMax = std::chrono::seconds(1);

// How long it may wait while the gang comes up: every pod has news several times in a second, and
// what lies between none and all is worth no more than that; the last one to run is urgent news.
// Choice: at one second, 100 gangs that came up together within 6 s wrote 4.6 statuses each; three
// of them say something.
constexpr Duration kPatienceComingUp = std::chrono::seconds(2);

// What a pod of the job may answer: its peers' share, and room for everything else at its bounds.
// Choice: 64 answers on the way at once hold some tens of megabytes, whatever pods send.
constexpr std::size_t kAnswerBytes = 256 * 1024;
constexpr std::size_t kAnswerBytesPerPeer = 256;

std::size_t AnswerBytesMax(const TrainingJob& job) {
  return std::min(kStatusBytesMax,
                  kAnswerBytes + static_cast<std::size_t>(job.WorldSize()) * kAnswerBytesPerPeer);
}

// UsageByNode becomes free in many small pieces; those who wait look at all of them together. The
// more of them wait, the less often.
constexpr Duration kSweepDelay = std::chrono::milliseconds(20);
constexpr Duration kSweepDelayPerJob = std::chrono::milliseconds(2);

ApiClusterParts PartsOf(const ControlLoopParts& parts,
                        const ControlLoopOptions& options,
                        ClusterView* view) {
  return {view,
          parts.api,
          parts.control,
          parts.publisher,
          parts.logger,
          parts.clock,
          options.calls_of_job_max,
          options.half_life,
          options.binds_natively};
}

// Whether the gang has its places and has not run yet.
bool ComesUp(const TrainingJobStatus& status) {
  return IsTrue(status, ConditionType::kScheduled) && !IsTrue(status, ConditionType::kRunning) &&
         !IsTrue(status, ConditionType::kRestarting);
}

}  // namespace

ControlLoop::ControlLoop(ControlLoopOptions options, ControlLoopParts parts)
    : view_(std::move(options.namespaces), options.topology_levels, options.learns_run_times),
      cluster_(std::move(options.pods), PartsOf(parts, options, &view_)),
      controller_(&cluster_, parts.logger, Calendar(TimePoint(), WallTime()), options.controller) {
  view_.RecordScheduling(parts.recorder);
}

void ControlLoop::Apply(const WatchUpdate& update, TimePoint now) {
  News news;
  std::visit([&](const auto& one) { view_.Apply(one, &news); }, update);
  Spread(news, now);
}

void ControlLoop::Accept(PodReport report, TimePoint now) {
  News news;
  cluster_.Accept(std::move(report), &news);
  Spread(news, now);
}

void ControlLoop::Accept(kube::CallsAnswered answered) {
  cluster_.Accept(std::move(answered));
}

void ControlLoop::NoteClosed(const kube::ObjectKey& pod, TimePoint now) {
  News news;
  cluster_.NoteClosed(pod, now, &news);
  Spread(news, now);
}

void ControlLoop::NoteRefused(const kube::ObjectKey& pod, TokenVerdict why, TimePoint now) {
  News news;
  cluster_.NoteRefused(pod, why, &news);
  Spread(news, now);
}

void ControlLoop::NoteReleases(std::vector<OtherRelease> releases, TimePoint now) {
  News news;
  view_.NoteReleases(std::move(releases), &news);
  Spread(news, now);
}

void ControlLoop::NotePodGroups(kube::PodGroupsFound found, TimePoint now) {
  News news;
  view_.NotePodGroups(std::move(found), &news);
  Spread(news, now);
}

void ControlLoop::Lead(const std::string& master_key, TimePoint now, WallTime wall_now) {
  is_leading_ = true;
  controller_.SetCalendar(Calendar(now, wall_now));
  cluster_.SetTime(now, wall_now);
  cluster_.Lead(master_key);
  for (const JobId& key : view_.Jobs()) {
    controller_.Notify(key, now);
  }
  for (const JobId& key : view_.JobsInDoubt()) {
    controller_.Notify(key, now);  // may be gone, and its pods hold room here
  }
  sweep_at_ = now;
}

void ControlLoop::StandBy(TimePoint now) {
  is_leading_ = false;
  controller_.Abandon(now);
  sweep_at_.reset();
  poll_stale_.insert(polled_.begin(), polled_.end());  // some may be gone from the view
}

std::vector<TurnReport> ControlLoop::Step(TimePoint now) {
  if (!is_leading_) {
    return {};
  }
  cluster_.SetTime(now, controller_.calendar().At(now));
  if (const auto again = LookAgainAt(); again.has_value() && *again <= now) {
    sweep_at_ = now;
  }
  if (sweep_at_.has_value() && *sweep_at_ <= now) {
    sweep_at_.reset();
    cluster_.Plan();
    Spread(cluster_.TakeNews(), now);
  }
  std::vector<TurnReport> turns = controller_.Step(now);
  for (const TurnReport& turn : turns) {
    poll_stale_.insert(turn.key);
  }
  Spread(cluster_.TakeNews(), now);
  cluster_.ReportQueues();
  return turns;
}

std::optional<TimePoint> ControlLoop::NextStep() const {
  if (!is_leading_) {
    return std::nullopt;
  }
  std::optional<TimePoint> next = controller_.NextStep();
  for (const std::optional<TimePoint>& other :
       {sweep_at_, LookAgainAt(), cluster_.NextQueueReport()}) {
    if (other.has_value()) {
      next = std::min(*other, next.value_or(*other));
    }
  }
  return next;
}

// When a round may say something else though nothing has happened.
std::optional<TimePoint> ControlLoop::LookAgainAt() const {
  const std::optional<WallTime> when = cluster_.look_again_at();
  return when.has_value() ? std::optional(controller_.calendar().MomentOf(*when)) : std::nullopt;
}

std::vector<ControlLoop::PollChange> ControlLoop::TakePollChanges() {
  std::vector<PollChange> changes;
  for (const JobId& key : std::exchange(poll_stale_, {})) {
    changes.push_back(PollChangeOf(key));
    if (changes.back().targets.empty()) {
      polled_.erase(key);
    } else {
      polled_.insert(key);
    }
  }
  return changes;
}

ControlLoop::PollChange ControlLoop::PollChangeOf(const JobId& key) const {
  PollChange change{key, "", 0, {}};
  const StoredJob* const stored = view_.FindJob(key);
  if (stored == nullptr || !stored->problem.empty() || !is_leading_) {
    return change;
  }
  change.answer_bytes_max = AnswerBytesMax(stored->job);
  std::vector<const kube::Pod*> pods;
  PollKnowledge known;
  for (const kube::Item<kube::Pod>* item : view_.PodsOf(key)) {
    pods.push_back(item->object.get());
    const PodReports::Entry* const entry = cluster_.reports().Find(key, item->key.name);
    if (entry != nullptr && entry->report.has_value()) {
      known.documents[item->key.name] = &entry->report->document;
    }
    if (entry != nullptr && entry->closed_at.has_value()) {
      known.closed.insert(item->key.name);
    }
  }
  change.targets = PollPlan(stored->job, pods, known);
  if (!change.targets.empty()) {
    change.job_key = cluster_.JobSecretOf(stored->job.metadata.uid);
  }
  return change;
}

void ControlLoop::Spread(const News& news, TimePoint now) {
  if (!is_leading_) {
    return;  // every job is looked at when we lead
  }
  for (const JobId& key : view_.ByAge(news.urgent)) {
    controller_.Notify(key, now);
  }
  for (const JobId& key : news.calm) {
    controller_.NotifyAt(key, now + PatienceFor(key));
  }
  if (news.frees_room && !sweep_at_.has_value()) {
    const int64_t waiting = view_.waiting_count();
    if (waiting > 0) {
      sweep_at_ = now + kSweepDelay + waiting * kSweepDelayPerJob;
    }
  }
}

Duration ControlLoop::PatienceFor(const JobId& key) const {
  const StoredJob* const stored = view_.FindJob(key);
  if (stored != nullptr && ComesUp(stored->job.status)) {
    return kPatienceComingUp;
  }
  const auto pods = static_cast<int64_t>(view_.PodCountOf(key));
  return std::clamp<Duration>(pods * kPatiencePerPod, kPatienceMin, kPatienceMax);
}

}  // namespace lockstep::control
