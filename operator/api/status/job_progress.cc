#include "operator/api/status/job_progress.h"

#include "common/base/rfc3339.h"
#include "operator/api/fields/fields.h"

namespace lockstep::control {
namespace {

ModelProgress DecodeModel(ObjectReader& reader) {
  ModelProgress model;
  model.rank = ReadCount(reader, "rank");
  model.step = ReadCount(reader, "step");
  model.told_by.attempt = Attempt(ReadCount(reader, "attempt"));
  model.told_by.incarnation = Incarnation(ReadCount(reader, "incarnation"));
  model.checkpoint_step = ReadCount(reader, "checkpointStep");
  return model;
}

Json EncodeModel(const ModelProgress& model) {
  return {{"rank", model.rank},
          {"step", model.step},
          {"attempt", model.told_by.attempt.value()},
          {"incarnation", model.told_by.incarnation.value()},
          {"checkpointStep", model.checkpoint_step}};
}

}  // namespace

JobProgress DecodeProgress(const Json& value, const std::string& path, std::vector<Error>* errors) {
  JobProgress progress;
  ObjectReader reader(value, path, errors);
  progress.step = ReadCount(reader, "step");
  progress.steps_total = ReadCount(reader, "stepsTotal");
  progress.data_epoch = ReadCount(reader, "dataEpoch");
  progress.loss = reader.Number("loss").value_or(0);
  progress.samples_per_second = reader.Number("samplesPerSecond").value_or(0);
  progress.eta_seconds = reader.Number("etaSeconds").value_or(0);
  progress.checkpoint_step = ReadCount(reader, "checkpointStep");
  progress.checkpoint_at = ReadTime(reader, "checkpointAt");
  progress.steps_skipped = ReadCount(reader, "stepsSkipped");
  progress.steps_repeated = ReadCount(reader, "stepsRepeated");
  const std::vector<const Json*> models = reader.List("models");
  for (std::size_t i = 0; i < models.size(); ++i) {
    ObjectReader model(*models[i], reader.PathOf("models", i), errors);
    progress.models.push_back(DecodeModel(model));
  }
  progress.observed_at = ReadTime(reader, "observedAt").value_or(WallTime{});
  return progress;
}

Json EncodeProgress(const JobProgress& progress) {
  Json value = {{"step", progress.step},
                {"stepsTotal", progress.steps_total},
                {"dataEpoch", progress.data_epoch},
                {"checkpointStep", progress.checkpoint_step},
                {"stepsSkipped", progress.steps_skipped},
                {"stepsRepeated", progress.steps_repeated},
                {"observedAt", FormatRfc3339(progress.observed_at)}};
  for (const ModelProgress& model : progress.models) {
    value["models"].push_back(EncodeModel(model));
  }
  SetTime(&value, "checkpointAt", progress.checkpoint_at);
  SetNumber(&value, "loss", progress.loss);
  SetNumber(&value, "samplesPerSecond", progress.samples_per_second);
  SetNumber(&value, "etaSeconds", progress.eta_seconds);
  return value;
}

}  // namespace lockstep::control
