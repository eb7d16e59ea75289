#include "operator/cli/summary/recovery.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/contract/status/exit_code.h"
#include "common/contract/status/termination_message.h"

namespace lockstep::control {
namespace {

TimePoint WhenOf(const TimelineEvent& event) {
  return TimePoint(Duration(event.monotonic_ns));
}

// The last event of the kind in [from, until].
std::optional<TimePoint> LastOf(const StatusDocument& document,
                                TimelineEventKind kind,
                                TimePoint from,
                                TimePoint until) {
  std::optional<TimePoint> last;
  for (const TimelineEvent& event : document.timeline) {
    const TimePoint when = WhenOf(event);
    if (event.event == kind && !event.rank && when >= from && when <= until &&
        (!last || when > *last)) {
      last = when;
    }
  }
  return last;
}

// Of an event that names no rank.
constexpr int kNoRank = -1;

// The first event of the kind after `when`, of those that name this rank.
std::optional<TimePoint> FirstOf(const StatusDocument& document,
                                 TimelineEventKind kind,
                                 TimePoint when,
                                 int rank = kNoRank) {
  std::optional<TimePoint> first;
  for (const TimelineEvent& event : document.timeline) {
    const TimePoint at = WhenOf(event);
    if (event.event == kind && event.rank.value_or(kNoRank) == rank && at > when &&
        (!first || at < *first)) {
      first = at;
    }
  }
  return first;
}

// When the process of `rank` was lost that another replaced at `started`: the first word of it
// since it began, trained, or all met. A pod tells of the newest process of each rank,
// so what the one before has met is not in its timeline: then its start alone is.
TimePoint LossBefore(TimePoint started, int rank, const StatusDocument& document) {
  std::optional<TimePoint> lost;
  for (const TimelineEvent& event : document.timeline) {
    const TimePoint when = WhenOf(event);
    if (when > started) {
      break;
    }
    const bool is_start = event.event == TimelineEventKind::kProcessStart && event.rank == rank;
    const bool is_step =
        event.event == TimelineEventKind::kFirstStep && event.rank.value_or(rank) == rank;
    if (is_step || event.event == TimelineEventKind::kRendezvousEnd ||
        (is_start && when < started)) {
      lost.reset();
    } else if (event.event == TimelineEventKind::kPeerLost && event.rank == rank) {
      lost = lost.value_or(when);
    }
  }
  return lost.value_or(started);
}

Attempt AttemptOf(const std::string& pod) {
  const auto name = ParsePodName(pod);
  return name ? name->number.attempt : Attempt();
}

}  // namespace

bool IsOfPsAlone(const Recovery& recovery) {
  return recovery.culprit.role == Role::kPs &&
         (recovery.replacement_pod.empty() ||
          AttemptOf(recovery.replacement_pod) == AttemptOf(recovery.lost_pod));
}

void RecoveryTracker::NoteFault(const TaskId& task, TimePoint at) {
  faults_[task] = at;
}

void RecoveryTracker::PodLost(const Loss& loss) {
  const bool is_known =
      std::any_of(recoveries_.begin(), recoveries_.end(), [&loss](const Recovery& recovery) {
        return recovery.lost_pod == loss.pod && !recovery.lost_rank && !recovery.relaunch;
      });
  if (is_known) {
    return;
  }
  Recovery recovery;
  recovery.cause = loss.cause;
  recovery.culprit = loss.task;
  recovery.lost_pod = loss.pod;
  recovery.noticed_at = loss.noticed_at;
  recovery.fault_at = std::min(loss.fault_at.value_or(loss.noticed_at), loss.noticed_at);
  if (const auto fault = faults_.find(loss.task); fault != faults_.end()) {
    recovery.fault_at = std::min(fault->second, loss.noticed_at);
    faults_.erase(fault);
  }
  recoveries_.push_back(std::move(recovery));
}

void RecoveryTracker::PodStarted(const TaskId& task, const std::string& pod, TimePoint at) {
  const Attempt attempt = AttemptOf(pod);
  started_[attempt].insert(task);
  if (attempt > programs_attempt_) {
    BeginAttempt(attempt);
  }
  for (Recovery& recovery : recoveries_) {
    if (recovery.over_at || recovery.lost_pod == pod) {
      continue;
    }
    if (recovery.culprit == task && !recovery.lost_rank) {
      recovery.replacement_pod = pod;  // of several replacements, the one that lasts
    }
    if (!has_steps_ && !recovery.back_at && IsCommandBack(recovery, pod)) {
      NoteBack(&recovery, at);
    }
  }
}

void RecoveryTracker::PodSucceeded() {
  for (Recovery& recovery : recoveries_) {
    if (recovery.back_at && !recovery.over_at) {
      recovery.over_at = recovery.back_at;
      Complete(&recovery);
    }
  }
}

// The loss of a program that waits to be started anew is one, whatever comes: that or new pods.
void RecoveryTracker::SettleHeld() {
  if (held_.empty()) {
    return;
  }
  Recovery held = TakeHeld();
  const auto known = std::ranges::find_if(recoveries_, [&held](const Recovery& recovery) {
    return recovery.lost_pod == held.lost_pod && !recovery.lost_rank && !recovery.over_at;
  });
  if (known == recoveries_.end()) {
    recoveries_.push_back(std::move(held));
    return;
  }
  known->fault_at = std::min(known->fault_at, held.fault_at);  // then its pod went, too
  known->noticed_at = std::min(known->noticed_at, held.noticed_at);
}

// New pods come in place of programs that were to start anew in the old ones.
void RecoveryTracker::BeginAttempt(Attempt attempt) {
  programs_attempt_ = attempt;
  relaunches_.clear();
  SettleHeld();
  held_for_ = 0;
  for (Recovery& recovery : recoveries_) {
    if (recovery.relaunch && !recovery.over_at) {
      recovery.relaunch.reset();
      recovery.replacement_pod.clear();
      recovery.back_at.reset();
    }
  }
}

// A pod that was replaced alone is back when it runs; a gang that was started anew when all of it
// does. Its programs then still have to begin, of which nobody tells but those that meet.
bool RecoveryTracker::IsCommandBack(const Recovery& recovery, const std::string& pod) const {
  const Attempt attempt = AttemptOf(pod);
  return attempt == AttemptOf(recovery.lost_pod)
             ? recovery.replacement_pod == pod
             : attempt > AttemptOf(recovery.lost_pod) && started_.at(attempt).size() >= gang_size_;
}

void RecoveryTracker::Report(const StatusDocument& document) {
  newest_[document.pod] = document;
  has_met_ = has_met_ || FirstOf(document, TimelineEventKind::kRendezvousEnd, TimePoint::min());
  NoteReplacements(document);
  for (Recovery& recovery : recoveries_) {
    if (!has_steps_) {
      NoteMeeting(&recovery);
      continue;
    }
    if (recovery.replacement_pod.empty()) {
      continue;
    }
    if (!recovery.next_step_at) {
      recovery.next_step_at = NextStepOf(recovery);
    }
    // Of a process that was replaced its pod does not tell them.
    if (recovery.next_step_at && !recovery.parts && !recovery.lost_rank) {
      recovery.parts = PartsOf(recovery);
    }
    if (recovery.next_step_at && !recovery.over_at) {
      recovery.over_at = recovery.next_step_at;
      Complete(&recovery);
    }
  }
}

// Of the programs that have ended since the newest relaunch all are noted: whose loss the others'
// ends were echoes of is seen when nobody is left.
void RecoveryTracker::NoteHeld(const StatusDocument& document, TimePoint received) {
  const HeldEnd& end = *document.held;
  if (const int64_t next = *document.relaunches + 1; next != held_for_) {
    if (next < held_for_) {
      return;
    }
    held_for_ = next;
    held_.clear();
  }
  const auto [held, is_new] = held_.try_emplace(document.pod);
  if (!is_new) {
    return;
  }
  held->second.task = document.task;
  held->second.end.cause =
      VerdictUnasked(ClassifyExit(end.exit_code, end.signal, ""), end.message).cause;
  held->second.noticed_at = received;
  held->second.fault_at = received - std::chrono::duration_cast<Duration>(
                                         std::chrono::duration<double>(end.seconds_ago));
  if (end.monotonic_ns.has_value()) {
    held->second.end.at = TimePoint(Duration(*end.monotonic_ns));
    held->second.fault_at = *held->second.end.at;
  }
}

// The loss that the relaunch answers: the first one, all that were killed at once, or all that may
// be it.
Recovery RecoveryTracker::TakeHeld() {
  std::vector<std::pair<std::string, HeldProgram>> programs(held_.begin(), held_.end());
  held_.clear();
  std::vector<ProgramEnd> ends;
  Recovery recovery;
  recovery.fault_at = recovery.noticed_at = TimePoint::max();
  for (const auto& [pod, program] : programs) {
    ends.push_back(program.end);
    recovery.fault_at = std::min(recovery.fault_at, program.fault_at);
    recovery.noticed_at = std::min(recovery.noticed_at, program.noticed_at);
  }
  const FirstEnded first = FirstEnds(ends);
  const auto& [pod, culprit] = programs[first.indexes.front()];
  recovery.cause = ExitCauseName(culprit.end.cause);
  recovery.culprit = culprit.task;
  recovery.all_within = first.all_within;
  for (std::size_t i = 1; i < first.indexes.size(); ++i) {
    const HeldProgram& other = programs[first.indexes[i]].second;
    recovery.other_culprits.emplace_back(other.task, ExitCauseName(other.end.cause));
  }
  recovery.lost_pod = pod;
  recovery.replacement_pod = pod;
  recovery.relaunch = held_for_;
  return recovery;
}

void RecoveryTracker::NotePrograms(const StatusDocument& document, TimePoint received) {
  const Attempt attempt = AttemptOf(document.pod);
  if (!document.relaunches || attempt < programs_attempt_) {
    return;
  }
  if (attempt > programs_attempt_) {
    BeginAttempt(attempt);
  }
  relaunches_[document.pod] = *document.relaunches;
  if (document.held && document.held->exit_code != 0) {
    NoteHeld(document, received);
  } else if (!held_.empty() && *document.relaunches >= held_for_) {
    SettleHeld();
  }
  for (Recovery& recovery : recoveries_) {
    const bool is_back =
        recovery.relaunch && std::ranges::all_of(relaunches_, [&](const auto& told) {
          return told.second >= *recovery.relaunch;
        });
    if (is_back && !recovery.over_at && !recovery.back_at) {
      NoteBack(&recovery, received);
    }
  }
}

bool RecoveryTracker::IsOfPs(const Recovery& recovery) const {
  return has_steps_ && IsOfPsAlone(recovery);
}

// When the replacement of a ps held what it stands for.
std::optional<TimePoint> RecoveryTracker::WholeAt(const Recovery& recovery) const {
  const auto document = newest_.find(recovery.replacement_pod);
  return document == newest_.end() ? std::nullopt
                                   : LastOf(document->second,
                                            TimelineEventKind::kStateReady,
                                            recovery.noticed_at,
                                            TimePoint::max());
}

std::optional<TimePoint> RecoveryTracker::NextStepOf(const Recovery& recovery) const {
  if (IsOfPs(recovery)) {
    return WholeAt(recovery);
  }
  if (!has_own_models_) {
    return NextAfter(TimelineEventKind::kFirstStep, recovery.noticed_at);
  }
  if (recovery.lost_rank) {
    return NextStepOfModel(recovery);
  }
  const auto document = newest_.find(recovery.replacement_pod);
  return document == newest_.end()
             ? std::nullopt
             : FirstOf(document->second, TimelineEventKind::kFirstStep, recovery.noticed_at);
}

// Of a model in a pod with several, by what the pod tells of its rank; where the pod went, too, by
// the next one of its place. A process whose model was at its end takes no step.
std::optional<TimePoint> RecoveryTracker::NextStepOfModel(const Recovery& recovery) const {
  for (const auto& [pod, document] : newest_) {
    if (document.task != recovery.culprit) {
      continue;
    }
    const int rank = pod == recovery.lost_pod ? recovery.lost_rank.value_or(kNoRank) : kNoRank;
    auto next = FirstOf(document, TimelineEventKind::kFirstStep, recovery.noticed_at, rank);
    if (!next && rank != kNoRank) {
      next = FirstOf(document, TimelineEventKind::kStateReady, recovery.noticed_at, rank);
    }
    if (next) {
      return next;
    }
  }
  return std::nullopt;
}

void RecoveryTracker::NoteBack(Recovery* recovery, TimePoint at) {
  recovery->back_at = at;
  NoteMeeting(recovery);
}

// A command whose ranks meet goes on when they have met anew; one of which no meeting is known,
// when its pods and programs are there. A process is replaced in its pod only where its program
// meets others. An evaluator meets nobody.
void RecoveryTracker::NoteMeeting(Recovery* recovery) {
  const bool is_there = recovery->lost_rank || recovery->back_at;
  if (!is_there || recovery->over_at) {
    return;
  }
  const bool meets = recovery->lost_rank || (has_met_ && IsRank(recovery->culprit.role));
  const auto met = meets ? NextAfter(TimelineEventKind::kRendezvousEnd, recovery->noticed_at)
                         : recovery->back_at;
  if (met) {
    recovery->over_at = std::max(*met, recovery->back_at.value_or(*met));
    Complete(recovery);
  }
}

// A pod's document names a rank behind kProcessStart only where its process took another's place.
void RecoveryTracker::NoteReplacements(const StatusDocument& document) {
  for (const TimelineEvent& event : document.timeline) {
    if (event.event != TimelineEventKind::kProcessStart || !event.rank) {
      continue;
    }
    const TimePoint started = WhenOf(event);
    const bool is_known = std::ranges::any_of(recoveries_, [&](const Recovery& recovery) {
      return recovery.lost_rank == event.rank && recovery.lost_pod == document.pod &&
             recovery.noticed_at == started;
    });
    if (is_known) {
      continue;
    }
    Recovery recovery;
    recovery.cause = kProcessLost;
    recovery.culprit = document.task;
    recovery.lost_rank = event.rank;
    recovery.lost_pod = document.pod;
    recovery.replacement_pod = document.pod;
    recovery.noticed_at = started;
    recovery.fault_at = LossBefore(started, *event.rank, document);
    recoveries_.push_back(std::move(recovery));
  }
}

void RecoveryTracker::Complete(Recovery* recovery) {
  completed_.push_back(static_cast<std::size_t>(recovery - recoveries_.data()));
}

// The gang is synchronous: a step that is complete after the loss had the replacement in it, as had
// a meeting, so the earliest report of one is the moment that counts.
std::optional<TimePoint> RecoveryTracker::NextAfter(TimelineEventKind kind, TimePoint when) const {
  std::optional<TimePoint> next;
  for (const auto& [pod, document] : newest_) {
    const std::optional<TimePoint> at = FirstOf(document, kind, when);
    next = next && at ? std::min(next, at) : next ? next : at;
  }
  return next;
}

std::optional<RecoveryParts> RecoveryTracker::PartsOf(const Recovery& recovery) const {
  const auto document = newest_.find(recovery.replacement_pod);
  if (document == newest_.end()) {
    return std::nullopt;
  }
  const TimePoint from = recovery.noticed_at;
  const TimePoint until = *recovery.next_step_at;
  const auto last = [&](TimelineEventKind kind) {
    return LastOf(document->second, kind, from, until);
  };
  const auto start = last(TimelineEventKind::kProcessStart);
  const auto engine = last(TimelineEventKind::kEngineReady);
  const auto met = last(TimelineEventKind::kRendezvousEnd);
  const auto state = last(TimelineEventKind::kStateReady);
  if (!start || !engine || !met || !state) {
    return std::nullopt;
  }
  // Ranks meet while the engine loads: only the wait beyond that is the meeting's.
  const TimePoint ready_and_met = std::max(*engine, *met);
  const TimePoint restored = std::max(*state, ready_and_met);
  RecoveryParts parts;
  parts.detect = recovery.noticed_at - recovery.fault_at;
  parts.spawn = *start - recovery.noticed_at;
  parts.engine_load = *engine - *start;
  parts.rendezvous = ready_and_met - *engine;
  parts.state = restored - ready_and_met;
  parts.step = until - restored;
  return parts;
}

bool RecoveryTracker::is_recovering() const {
  return std::any_of(recoveries_.begin(), recoveries_.end(), [](const Recovery& recovery) {
    return !recovery.over_at;
  });
}

std::vector<Recovery> RecoveryTracker::TakeCompleted() {
  std::vector<Recovery> taken;
  for (; taken_ < completed_.size(); ++taken_) {
    taken.push_back(recoveries_[completed_[taken_]]);
  }
  return taken;
}

// The union of the recoveries' spans: two pods lost together cost their time once.
Duration RecoveryTracker::TimeLost(TimePoint now) const {
  std::vector<std::pair<TimePoint, TimePoint>> spans;
  for (const Recovery& recovery : recoveries_) {
    if (!IsOfPs(recovery)) {
      spans.emplace_back(recovery.fault_at, recovery.over_at.value_or(now));
    }
  }
  std::sort(spans.begin(), spans.end());
  Duration lost{};
  TimePoint counted_until{};
  for (const auto& [begin, end] : spans) {
    const TimePoint from = std::max(begin, counted_until);
    if (end > from) {
      lost += end - from;
      counted_until = end;
    }
  }
  return lost;
}

}  // namespace lockstep::control
