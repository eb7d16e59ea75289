#include "trainer-runtime/supervisor/status/pod_report.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "common/contract/environment/supervised_place.h"

namespace lockstep::runtime {
namespace {

// Of one rank, in the document of its pod: whoever asks every few seconds misses none. Choice.
constexpr std::size_t kLossEventsMax = 16;

TimelineEvent EventAt(TimelineEventKind kind, TimePoint at) {
  TimelineEvent event;
  event.event = kind;
  event.monotonic_ns = std::chrono::nanoseconds(at.time_since_epoch()).count();
  return event;
}

std::optional<TimelineEvent> FirstOf(const StatusDocument& document, TimelineEventKind kind) {
  const auto found = std::ranges::find(document.timeline, kind, &TimelineEvent::event);
  return found == document.timeline.end() ? std::nullopt : std::optional(*found);
}

// When a process went on with its model: with its first step; one whose model was at its end has
// none to take, and went on when it held it.
std::optional<TimelineEvent> ModelGoesOn(const StatusDocument& process) {
  if (auto step = FirstOf(process, TimelineEventKind::kFirstStep)) {
    return step;
  }
  const bool is_done =
      process.steps_total.has_value() && process.step.value() >= *process.steps_total;
  return is_done ? FirstOf(process, TimelineEventKind::kStateReady) : std::nullopt;
}

// In the order of time, as the pod's own events are.
void AddLosses(const StatusDocument& pod,
               const std::vector<ProcessReport>& reports,
               bool has_own_models,
               std::vector<TimelineEvent>* timeline) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    std::vector<TimelineEvent> events = reports[i].losses;
    if (has_own_models && !events.empty() && reports[i].newest.has_value()) {
      if (const auto goes_on = ModelGoesOn(*reports[i].newest)) {
        events.push_back(*goes_on);
      }
    }
    for (TimelineEvent& event : events) {
      event.rank = pod.rank.value_or(0) + static_cast<int>(i);
      timeline->push_back(event);
    }
  }
  std::stable_sort(timeline->begin(), timeline->end(), [](const auto& a, const auto& b) {
    return a.monotonic_ns < b.monotonic_ns;
  });
}

// Of each process that holds one: it stands at a step, also while it waits for the others, or ends.
std::vector<ModelStatus> ModelsOf(const StatusDocument& pod,
                                  const std::vector<ProcessReport>& reports) {
  std::vector<ModelStatus> models;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const std::optional<StatusDocument>& newest = reports[i].newest;
    if (newest.has_value() && HoldsModel(*newest)) {
      models.push_back(ModelStatusOf(*newest));
      models.back().rank = pod.rank.value_or(0) + static_cast<int>(i);
    }
  }
  return models;
}

void Add(const CheckpointStatus& more, CheckpointStatus* sum) {
  sum->written += more.written;
  sum->failed += more.failed;
  sum->skipped += more.skipped;
  if (more.written + more.failed > 0) {
    sum->last_error = more.last_error;
  }
  if (!sum->restored_step.has_value()) {
    sum->restored_step = more.restored_step;
  }
}

}  // namespace

int LeadingProcess(const std::vector<ProcessReport>& reports) {
  int leading = -1;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const std::optional<StatusDocument>& newest = reports[i].newest;
    if (newest.has_value() &&
        (leading < 0 || newest->step > reports[static_cast<std::size_t>(leading)].newest->step)) {
      leading = static_cast<int>(i);
    }
  }
  return leading;
}

void CloseReport(ProcessReport* report) {
  if (!report->newest.has_value()) {
    return;
  }
  const StatusDocument last = std::move(*report->newest);
  report->newest.reset();
  Add(last.checkpoints, &report->earlier);
  report->earlier_checkpoint_step =
      std::max(report->earlier_checkpoint_step, last.last_checkpoint_step);
}

void NoteLost(TimePoint at, ProcessReport* report) {
  report->lost_at = at;
}

void NoteSuccessor(TimePoint at, ProcessReport* report) {
  if (!report->lost_at.has_value()) {
    return;
  }
  std::vector<TimelineEvent>& losses = report->losses;
  losses.push_back(EventAt(TimelineEventKind::kPeerLost, *report->lost_at));
  losses.push_back(EventAt(TimelineEventKind::kProcessStart, at));
  if (losses.size() > kLossEventsMax) {
    losses.erase(losses.begin(), losses.end() - kLossEventsMax);
  }
  report->lost_at.reset();
}

StatusDocument PodStatus(const StatusDocument& pod,
                         const std::vector<ProcessReport>& reports,
                         bool has_own_models) {
  const int leading = LeadingProcess(reports);
  if (leading < 0) {
    return pod;
  }
  StatusDocument document = *reports[static_cast<std::size_t>(leading)].newest;
  document.pod = pod.pod;
  document.rank = pod.rank;
  document.attempt = pod.attempt;  // programs count relaunches, too
  document.incarnation = pod.incarnation;
  document.relaunches = pod.relaunches;
  document.held = pod.held;
  document.hang_evidence = pod.hang_evidence;
  document.pid = pod.pid;
  document.devices = pod.devices;
  if (has_own_models) {  // whoever leads may be another tomorrow, with losses of its own
    const std::optional<StatusDocument>& first = reports.front().newest;
    document.history = first.has_value() ? first->history : std::vector<DataEpochResult>();
    document.models = ModelsOf(pod, reports);
  }
  AddLosses(pod, reports, has_own_models, &document.timeline);
  for (PeerStatus& peer : document.peers) {
    peer.incarnation = IncarnationOfPod(peer.incarnation);
  }
  document.checkpoints = CheckpointStatus();
  document.last_checkpoint_step.reset();
  for (const ProcessReport& report : reports) {
    Add(report.earlier, &document.checkpoints);
    document.last_checkpoint_step =
        std::max(document.last_checkpoint_step, report.earlier_checkpoint_step);
    if (report.newest.has_value()) {
      Add(report.newest->checkpoints, &document.checkpoints);
      document.last_checkpoint_step =
          std::max(document.last_checkpoint_step, report.newest->last_checkpoint_step);
    }
  }
  return document;
}

}  // namespace lockstep::runtime
