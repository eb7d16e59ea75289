#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "operator/cli/summary/summary.h"

// What a run has to say at its end, for programs.

namespace lockstep::control {
namespace {

Json NumberOrNull(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? Json(*number) : Json(nullptr);
}

Json SecondsOrNull(const std::optional<Duration>& duration) {
  return duration ? Json(ToSeconds(*duration)) : Json(nullptr);
}

std::optional<Duration> FaultToNextStep(const Recovery& recovery) {
  return recovery.next_step_at ? std::optional(*recovery.next_step_at - recovery.fault_at)
                               : std::nullopt;
}

// All culprits of a loss of several.
Json EncodeCulprits(const Recovery& recovery) {
  Json culprits = Json::array();
  culprits.push_back({{"culprit", TaskName(recovery.culprit)}, {"cause", recovery.cause}});
  for (const auto& [task, cause] : recovery.other_culprits) {
    culprits.push_back({{"culprit", TaskName(task)}, {"cause", cause}});
  }
  return culprits;
}

Json EncodeRecovery(const Recovery& recovery) {
  const auto part = [&recovery](Duration RecoveryParts::*member) {
    return recovery.parts ? SecondsOrNull((*recovery.parts).*member) : Json(nullptr);
  };
  const auto of_one = [&recovery](const std::string& word) {
    return recovery.other_culprits.empty() ? Json(word) : Json(nullptr);
  };
  Json json = Json::object();
  json["cause"] = of_one(recovery.cause);
  json["culprit"] = of_one(TaskName(recovery.culprit));
  const bool are_several = !recovery.other_culprits.empty();
  const bool are_all = recovery.all_within.has_value();
  json["oneOf"] = are_several && !are_all ? EncodeCulprits(recovery) : Json::array();
  json["allOf"] = are_several && are_all ? EncodeCulprits(recovery) : Json::array();
  json["lostRank"] = recovery.lost_rank ? Json(*recovery.lost_rank) : Json(nullptr);
  json["relaunch"] = recovery.relaunch ? Json(*recovery.relaunch) : Json(nullptr);
  json["lostPod"] = of_one(recovery.lost_pod);
  json["replacementPod"] = of_one(recovery.replacement_pod);
  json["killToNextStepSeconds"] = SecondsOrNull(FaultToNextStep(recovery));
  json["detectSeconds"] = ToSeconds(recovery.noticed_at - recovery.fault_at);
  json["spawnSeconds"] = part(&RecoveryParts::spawn);
  json["engineLoadSeconds"] = part(&RecoveryParts::engine_load);
  json["rendezvousSeconds"] = part(&RecoveryParts::rendezvous);
  json["stateSeconds"] = part(&RecoveryParts::state);
  json["stepSeconds"] = part(&RecoveryParts::step);
  return json;
}

Json EncodePod(const PodRecord& pod) {
  Json json = Json::object();
  json["name"] = pod.name;
  json["role"] = std::string(RoleName(pod.task.role));
  json["index"] = pod.task.index;
  json["attempt"] = pod.attempt.value();
  json["incarnation"] = pod.incarnation.value();
  json["pid"] = pod.pid;
  json["startedSeconds"] = ToSeconds(pod.started);
  json["endedSeconds"] = SecondsOrNull(pod.ended);
  json["exitCode"] = pod.exit_code ? Json(*pod.exit_code) : Json(nullptr);
  json["reason"] = pod.reason;
  json["message"] = pod.message;
  json["log"] = pod.log_file;
  json["lostOutputBytes"] = pod.lost_output_bytes;
  json["metrics"] = pod.metrics;
  return json;
}

Json EncodeModel(const ModelRecord& model) {
  const ModelResult result = model.result.value_or(ModelResult());
  return {{"rank", model.rank},
          {"steps", model.step ? Json(model.step->value()) : Json(nullptr)},
          {"stepsTotal", model.steps_total ? Json(*model.steps_total) : Json(nullptr)},
          {"firstStep", model.first_step ? Json(model.first_step->value()) : Json(nullptr)},
          {"hasResult", model.result.has_value()},
          {"trainingLoss", NumberOrNull(result.training_loss)},
          {"testLoss", NumberOrNull(result.test_loss)},
          {"testAccuracy", NumberOrNull(result.test_accuracy)}};
}

}  // namespace

Json EncodeSummary(const RunSummary& summary) {
  Json json = Json::object();
  json["job"] = summary.job;
  json["outcome"] = std::string(RunOutcomeName(summary.outcome));
  json["reason"] = summary.reason;
  json["testAccuracy"] = NumberOrNull(summary.test_accuracy);
  json["testLoss"] = NumberOrNull(summary.test_loss);
  json["loss"] = NumberOrNull(summary.loss);
  json["models"] = Json::array();
  for (const ModelRecord& model : summary.models) {
    json["models"].push_back(EncodeModel(model));
  }
  json["history"] = Json::array();
  for (const DataEpochResult& result : summary.history) {
    json["history"].push_back(EncodeDataEpochResult(result));
  }
  // Of a program: where it tells them.
  const bool tells_steps = summary.is_training || summary.steps > 0;
  json["steps"] = tells_steps ? Json(summary.steps) : Json(nullptr);
  json["stepsTotal"] = summary.steps_total ? Json(*summary.steps_total) : Json(nullptr);
  json["stepsSkipped"] = summary.is_training ? Json(summary.steps_skipped) : Json(nullptr);
  json["stepsRepeated"] = summary.is_training ? Json(summary.steps_repeated) : Json(nullptr);
  const double pace = summary.samples_per_second;
  json["samplesPerSecond"] = pace > 0 ? NumberOrNull(pace) : Json(nullptr);
  const auto samples = [&summary](int64_t SampleCounts::*count) {
    return summary.samples ? Json((*summary.samples).*count) : Json(nullptr);
  };
  json["samplesConsumed"] = samples(&SampleCounts::consumed);
  json["samplesExpected"] = samples(&SampleCounts::expected);
  json["samplesLost"] = samples(&SampleCounts::lost);
  json["samplesRepeated"] = samples(&SampleCounts::repeated);
  json["restarts"] = Json::array();
  for (const RestartCount& restart : summary.restarts) {
    Json entry = Json::object();
    entry["cause"] = restart.cause;
    entry["count"] = restart.count;
    json["restarts"].push_back(std::move(entry));
  }
  json["recoveries"] = Json::array();
  for (const Recovery& recovery : summary.recoveries) {
    json["recoveries"].push_back(EncodeRecovery(recovery));
  }
  json["pods"] = Json::array();
  for (const PodRecord& pod : summary.pods) {
    json["pods"].push_back(EncodePod(pod));
  }
  json["elapsedSeconds"] = ToSeconds(summary.elapsed);
  // What a program loads anew and repeats after a loss only it could tell.
  const Json time_lost = ToSeconds(summary.time_lost);
  json["timeLostSeconds"] = summary.is_training ? time_lost : Json(nullptr);
  json["gangBrokenSeconds"] = summary.is_training ? Json(nullptr) : time_lost;
  json["runDirectory"] = summary.run_directory;
  const std::string& checkpoints = summary.checkpoint_directory;  // a command's are its own
  json["checkpointDirectory"] = checkpoints.empty() ? Json(nullptr) : Json(checkpoints);
  const auto step = [](const std::optional<Step>& known) {
    return known ? Json(known->value()) : Json(nullptr);
  };
  json["lastCheckpointStep"] = step(summary.last_checkpoint_step);
  json["restoredStep"] = step(summary.checkpoints.restored_step);
  // A program's are its own; it may tell of those that failed.
  const bool tells_checkpoints = summary.is_training || summary.checkpoints.failed > 0;
  const auto told = [tells_checkpoints](Json value) {
    return tells_checkpoints ? std::move(value) : Json(nullptr);
  };
  json["checkpointsFailed"] = told(summary.checkpoints.failed);
  json["checkpointsSkipped"] = told(summary.checkpoints.skipped);
  json["checkpointError"] = told(summary.checkpoints.last_error);
  json["lostLogLines"] = summary.lost_log_lines;
  json["chaosNotFired"] = summary.chaos_not_fired;
  return json;
}

}  // namespace lockstep::control
