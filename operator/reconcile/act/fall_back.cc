#include "operator/reconcile/act/fall_back.h"

#include <algorithm>

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
  const int64_t next = FirstStepOf(document);
  std::string why = WhyCheckpointsGo(builder->job(), builder->observed());
  if (!why.empty()) {
    why = "nobody who had its state is left, and " + why + ", so checkpoints went with their pods";
  } else if (next == 0) {
    why = "nobody who had its state is left, and no checkpoint was found";
  } else {
    why = "nobody who had its state is left, and that is the newest checkpoint found";
  }
  builder->Say(EventType::kWarning,
               "ProgressLost",
               "training goes on at step " + std::to_string(next) + ", and had come to step " +
                   std::to_string(known.step) + " at least: " + why);
}

}  // namespace lockstep::control
