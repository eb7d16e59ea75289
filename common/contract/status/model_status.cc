#include "common/contract/status/model_status.h"

#include <algorithm>
#include <limits>

#include "common/contract/status/status_document.h"

namespace lockstep {

bool HoldsState(const StatusDocument& document) {
  return document.phase == Phase::kTraining || document.phase == Phase::kCheckpointing ||
         document.phase == Phase::kEvaluating || document.phase == Phase::kSucceeded;
}

bool HoldsModel(const StatusDocument& document) {
  return HoldsState(document) || document.step > Step();
}

ModelStatus ModelStatusOf(const StatusDocument& document) {
  ModelStatus model;
  model.rank = document.rank.value_or(0);
  model.incarnation = document.incarnation;
  const auto ready = std::find_if(
      document.timeline.begin(), document.timeline.end(), [](const TimelineEvent& event) {
        return event.event == TimelineEventKind::kStateReady;
      });
  model.first_step = ready == document.timeline.end()
                         ? document.checkpoints.restored_step.value_or(Step())
                         : ready->step;
  model.step = document.step;
  model.last_checkpoint_step = document.last_checkpoint_step;
  model.steps_total = document.steps_total;
  return model;
}

Json EncodeModelStatus(const ModelStatus& model) {
  Json json = {{"rank", model.rank},
               {"incarnation", model.incarnation.value()},
               {"firstStep", model.first_step.value()},
               {"step", model.step.value()},
               {"lastCheckpointStep",
                model.last_checkpoint_step.has_value() ? Json(model.last_checkpoint_step->value())
                                                       : Json(nullptr)}};
  if (model.steps_total.has_value()) {
    json["stepsTotal"] = *model.steps_total;
  }
  return json;
}

ModelStatus DecodeModelStatus(const Json& value,
                              const std::string& path,
                              std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  ModelStatus model;
  model.rank = static_cast<int>(reader.RequireInt("rank", 0, std::numeric_limits<int>::max()));
  model.incarnation = Incarnation(reader.RequireInt("incarnation", 0));
  model.first_step = Step(reader.RequireInt("firstStep", 0));
  model.step = Step(reader.RequireInt("step", 0));
  if (const std::optional<int64_t> step = reader.Int("lastCheckpointStep", 0)) {
    model.last_checkpoint_step = Step(*step);
  }
  model.steps_total = reader.Int("stepsTotal", 0);
  return model;
}

}  // namespace lockstep
