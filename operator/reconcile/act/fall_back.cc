#include "operator/reconcile/act/fall_back.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "common/base/plural.h"
#include "operator/reconcile/build/lasting_checkpoints.h"

namespace lockstep::control {
namespace {

// A process that leaves or fails may do so before it has a state; one that has come to its end
// stands at the last step.
bool HasState(Phase phase) {
  return phase == Phase::kTraining || phase == Phase::kCheckpointing ||
         phase == Phase::kEvaluating || phase == Phase::kSucceeded;
}

// The step that the newest meeting began with; where that is forgotten, the one it has come to.
int64_t FirstStepOf(const StatusDocument& document) {
  int64_t step = document.step.value();
  for (const TimelineEvent& event : document.timeline) {
    if (event.event == TimelineEventKind::kStateReady && event.epoch == document.epoch) {
      step = event.step.value();
    }
  }
  return step;
}

// The step that a process began with: later meetings change nothing of a model of its own.
int64_t FirstStepOfModel(const StatusDocument& document) {
  const auto ready = std::find_if(
      document.timeline.begin(), document.timeline.end(), [](const TimelineEvent& event) {
        return event.event == TimelineEventKind::kStateReady;
      });
  return ready == document.timeline.end() ? document.step.value() : ready->step.value();
}

struct Fall {
  std::string who;  // "training", "model 1"
  int64_t next = 0;
  int64_t reached = 0;
  std::string others{};  // that fared alike
};

void SayLost(const Fall& fall, DecisionBuilder* builder) {
  std::string why = WhyCheckpointsGo(builder->job(), builder->observed());
  if (!why.empty()) {
    why = "nobody who had its state is left, and " + why + ", so checkpoints went with their pods";
  } else if (fall.next == 0) {
    why = "nobody who had its state is left, and no checkpoint was found";
  } else {
    why = "nobody who had its state is left, and that is the newest checkpoint found";
  }
  builder->Say(EventType::kWarning,
               "ProgressLost",
               fall.who + " goes on at step " + std::to_string(fall.next) +
                   ", and had come to step " + std::to_string(fall.reached) + " at least: " + why +
                   fall.others);
}

bool TrainsOnAlone(Strategy strategy) {
  return strategy == Strategy::kParameterServer || strategy == Strategy::kIndependent;
}

}  // namespace

bool HasMetSince(const StatusDocument& document,
                 const TrainingJobStatus& status,
                 Strategy strategy) {
  return TrainsOnAlone(strategy) || document.epoch >= status.epoch;
}

bool MayFallBack(const JobProgress& known,
                 const StatusDocument& document,
                 WallTime reported_at,
                 const TrainingJobStatus& status,
                 Strategy strategy) {
  WallTime newest_start{};
  for (const PodPlacement& placement : status.placement) {
    if (!TrainsOnAlone(strategy) ||
        TaskId{placement.role, static_cast<int>(placement.index)} == document.task) {
      newest_start = std::max(newest_start, placement.since);
    }
  }
  return known.observed_at <= newest_start && newest_start <= reported_at &&
         HasMetSince(document, status, strategy) && HasState(document.phase);
}

bool HasFallenBack(const JobProgress& known, const StatusDocument& document) {
  return FirstStepOf(document) + 1 < known.step;
}

int64_t StepsToRepeat(const JobProgress& known, const StatusDocument& document) {
  return HasFallenBack(known, document) ? known.step - FirstStepOf(document) : 0;
}

int64_t CheckpointLeft(const JobProgress& known, const StatusDocument& document) {
  return std::min(known.checkpoint_step, FirstStepOf(document));
}

void TellOfFallBack(const JobProgress& known,
                    const StatusDocument& document,
                    DecisionBuilder* builder) {
  if (!builder->is_training() || !HasFallenBack(known, document)) {
    return;
  }
  SayLost({"training", FirstStepOf(document), known.step}, builder);
}

std::set<int64_t> NoteModels(const GangView& view, DecisionBuilder* builder) {
  std::set<int64_t> fallen;
  std::optional<JobProgress>& progress = builder->mutable_status()->progress;
  if (!builder->is_training() || builder->spec().strategy != Strategy::kIndependent ||
      !progress.has_value()) {
    return fallen;
  }
  std::map<int64_t, ModelProgress> known;
  for (const ModelProgress& model : progress->models) {
    known.emplace(model.rank, model);
  }
  progress->models.clear();
  Fall first;
  for (const Member& member : view.members) {
    if (!member.rank.has_value()) {
      continue;
    }
    const auto [entry, is_first] = known.try_emplace(*member.rank, ModelProgress{*member.rank});
    ModelProgress model = entry->second;
    if (member.report != nullptr && HasState(member.report->document.phase)) {
      const StatusDocument& document = member.report->document;
      const int64_t next = FirstStepOfModel(document);
      if (!is_first && model.told_by != member.number && next < model.step) {
        progress->steps_repeated += model.step - next;
        first =
            fallen.empty() ? Fall{"model " + std::to_string(model.rank), next, model.step} : first;
        fallen.insert(model.rank);
      }
      model = {model.rank, document.step.value(), member.number};
    } else if (is_first) {
      continue;
    }
    progress->models.push_back(model);
  }
  if (!fallen.empty()) {  // a gang's, which all start anew, make one event
    const auto more = static_cast<int64_t>(fallen.size()) - 1;
    first.others = more > 0 ? "; likewise " + Plural(more, "other model") : "";
    SayLost(first, builder);
  }
  return fallen;
}

}  // namespace lockstep::control
