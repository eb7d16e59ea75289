#include "operator/reconcile/recovery/fall_back.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/plural.h"
#include "operator/reconcile/pods/lasting_checkpoints.h"

namespace lockstep::control {
namespace {

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

// What the member's pod tells of models of its processes' own, as far as they hold one.
std::vector<ModelStatus> ModelsOf(const Member& member) {
  if (!member.rank.has_value() || member.report == nullptr) {
    return {};
  }
  const StatusDocument& document = member.report->document;
  if (!document.models.empty() || !HoldsModel(document)) {
    return document.models;
  }
  ModelStatus only = ModelStatusOf(document);
  only.rank = *member.rank;
  only.incarnation = member.number.incarnation;
  return {only};
}

// `model` after what `told_by` says of it.
ModelProgress After(ModelProgress model, const ModelStatus& told, PodNumber told_by) {
  if (model.told_by != told_by) {
    model.checkpoint_step = std::min(model.checkpoint_step, told.first_step.value());
  }
  const int64_t written = told.last_checkpoint_step.value_or(Step()).value();
  return {model.rank, told.step.value(), told_by, std::max(model.checkpoint_step, written)};
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
    why = "no rank that has the training state is left, and " + why +
          ", so checkpoints were deleted with their pods";
  } else if (fall.next == 0) {
    why = "no rank that has the training state is left, and no checkpoint was found";
  } else {
    why = "no rank that has the training state is left, so the newest checkpoint was loaded";
  }
  builder->Say(EventType::kWarning,
               "ProgressLost",
               fall.who + " continues at step " + std::to_string(fall.next) +
                   ", but had reached at least step " + std::to_string(fall.reached) + ": " + why +
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
         HasMetSince(document, status, strategy) && HoldsState(document);
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

bool HasOwnModels(const DecisionBuilder& builder) {
  return builder.is_training() && builder.spec().strategy == Strategy::kIndependent;
}

void NoteModels(const GangView& view, DecisionBuilder* builder) {
  std::optional<JobProgress>& progress = builder->mutable_progress()->progress;
  if (!HasOwnModels(*builder) || !progress.has_value()) {
    return;
  }
  const int rank_count = WorldSize(builder->topology());
  std::map<int64_t, ModelProgress> models;
  for (const ModelProgress& model : progress->models) {
    if (model.rank < rank_count) {
      models.emplace(model.rank, model);
    }
  }
  std::vector<Fall> falls;
  for (const Member& member : view.members) {
    for (const ModelStatus& told : ModelsOf(member)) {
      if (told.rank >= rank_count) {
        continue;
      }
      const PodNumber told_by = {member.number.attempt, told.incarnation};
      const ModelProgress unheard = {told.rank, 0, told_by};
      ModelProgress& model = models.try_emplace(told.rank, unheard).first->second;
      const int64_t next = told.first_step.value();
      if (model.told_by != told_by && next < model.step) {
        progress->steps_repeated += model.step - next;
        falls.push_back({"model " + std::to_string(told.rank), next, model.step});
      }
      model = After(model, told, told_by);
    }
  }
  progress->models.clear();
  for (const auto& [rank, model] : models) {
    progress->models.push_back(model);
  }
  if (!falls.empty()) {  // a gang's, which all start anew, make one event
    const auto more = static_cast<int64_t>(falls.size()) - 1;
    falls.front().others = more > 0 ? "; the same happened to " + Plural(more, "other model") : "";
    SayLost(falls.front(), builder);
  }
}

}  // namespace lockstep::control
