#include "operator/api/status.h"

#include <cmath>
#include <optional>
#include <utility>

#include "common/base/rfc3339.h"
#include "common/contract/training_result.h"
#include "operator/api/derived_status.h"
#include "operator/api/encode.h"
#include "operator/api/fields.h"
#include "operator/api/job_names.h"

namespace lockstep::control {
namespace {

using Errors = std::vector<Error>;

// A condition's truth as Kubernetes writes it.
constexpr EnumNames<bool, 2> kTruthNames = {{{true, "True"}, {false, "False"}}};

std::optional<WallTime> ReadTime(ObjectReader& reader, std::string_view key) {
  const std::optional<std::string> text = reader.String(key);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<WallTime> time = ParseRfc3339(*text);
  if (!time) {
    reader.Fail(key,
                DescribeJson(Json(*text)) + " found, expected a time such as 2026-11-21T10:22:03Z");
  }
  return time;
}

int64_t ReadCount(ObjectReader& reader, std::string_view key) {
  return reader.Int(key, 0).value_or(0);
}

Condition DecodeCondition(ObjectReader& reader) {
  Condition condition;
  condition.type = RequireEnum(reader, "type", kConditionTypeNames).value_or(condition.type);
  condition.is_true = RequireEnum(reader, "status", kTruthNames).value_or(false);
  condition.reason = reader.String("reason").value_or("");
  condition.message = reader.String("message").value_or("");
  condition.last_transition = ReadTime(reader, "lastTransitionTime").value_or(WallTime{});
  return condition;
}

PodPlacement DecodePlacement(ObjectReader& reader) {
  PodPlacement placement;
  placement.role = RequireEnum(reader, "role", kRoleNames).value_or(placement.role);
  placement.index = ReadCount(reader, "index");
  placement.node = reader.String("node").value_or("");
  placement.incarnation = Incarnation(ReadCount(reader, "incarnation"));
  placement.since = ReadTime(reader, "since").value_or(WallTime{});
  placement.pod_uid = reader.String("podUid").value_or("");
  placement.awaits_verdict = reader.Bool("awaitsVerdict").value_or(false);
  placement.is_completed = reader.Bool("completed").value_or(false);
  placement.devices = reader.Strings("devices");
  placement.trouble_since = ReadTime(reader, "troubleSince");
  return placement;
}

RoleCounts DecodeRoleCounts(ObjectReader& reader) {
  RoleCounts counts;
  counts.name = RequireEnum(reader, "name", kRoleNames).value_or(counts.name);
  counts.pending = ReadCount(reader, "pending");
  counts.active = ReadCount(reader, "active");
  counts.succeeded = ReadCount(reader, "succeeded");
  counts.failed = ReadCount(reader, "failed");
  return counts;
}

RestartCount DecodeRestartCount(ObjectReader& reader) {
  return {reader.String("cause").value_or(""), ReadCount(reader, "count")};
}

SuspectNode DecodeSuspectNode(ObjectReader& reader) {
  return {reader.String("node").value_or(""),
          reader.String("reason").value_or(""),
          ReadCount(reader, "count"),
          ReadTime(reader, "until").value_or(WallTime{})};
}

AdmittedAmount DecodeAdmittedAmount(ObjectReader& reader) {
  return {RequireEnum(reader, "role", kRoleNames).value_or(Role::kWorker),
          reader.String("resource").value_or(""),
          ReadCount(reader, "amount")};
}

JobProgress DecodeProgress(const Json& value, const std::string& path, Errors* errors) {
  JobProgress progress;
  ObjectReader reader(value, path, errors);
  progress.step = ReadCount(reader, "step");
  progress.steps_total = ReadCount(reader, "stepsTotal");
  progress.data_epoch = ReadCount(reader, "dataEpoch");
  progress.loss = reader.Number("loss").value_or(0);
  progress.samples_per_second = reader.Number("samplesPerSecond").value_or(0);
  progress.eta_seconds = reader.Number("etaSeconds").value_or(0);
  progress.observed_at = ReadTime(reader, "observedAt").value_or(WallTime{});
  reader.Finish();
  return progress;
}

// The elements of the list under `key`, each read by `decode`.
template <typename Item>
std::vector<Item> DecodeList(ObjectReader& reader,
                             std::string_view key,
                             Item (*decode)(ObjectReader&),
                             Errors* errors) {
  std::vector<Item> items;
  const std::vector<const Json*> values = reader.List(key);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ObjectReader item(*values[i], reader.PathOf(key, i), errors);
    items.push_back(decode(item));
    item.Finish();
  }
  return items;
}

void SetTime(Json* object, const char* key, const std::optional<WallTime>& time) {
  if (time) {
    (*object)[key] = FormatRfc3339(*time);
  }
}

Json EncodeCondition(const Condition& condition) {
  return {{"type", ConditionTypeName(condition.type)},
          {"status", NameOf(kTruthNames, condition.is_true)},
          {"reason", condition.reason},
          {"message", condition.message},
          {"lastTransitionTime", FormatRfc3339(condition.last_transition)}};
}

Json EncodePlacement(const PodPlacement& placement) {
  Json value = {{"role", RoleName(placement.role)},
                {"index", placement.index},
                {"node", placement.node},
                {"incarnation", placement.incarnation.value()},
                {"since", FormatRfc3339(placement.since)}};
  if (!placement.pod_uid.empty()) {
    value["podUid"] = placement.pod_uid;
  }
  if (placement.awaits_verdict) {
    value["awaitsVerdict"] = true;
  }
  if (placement.is_completed) {
    value["completed"] = true;
  }
  if (!placement.devices.empty()) {
    value["devices"] = placement.devices;
  }
  SetTime(&value, "troubleSince", placement.trouble_since);
  return value;
}

Json EncodeSuspectNode(const SuspectNode& suspect) {
  return {{"node", suspect.node},
          {"reason", suspect.reason},
          {"count", suspect.count},
          {"until", FormatRfc3339(suspect.until)}};
}

Json EncodeAdmittedAmount(const AdmittedAmount& admitted) {
  return {{"role", RoleName(admitted.role)},
          {"resource", admitted.resource},
          {"amount", admitted.amount}};
}

Json EncodeRoleCounts(const RoleCounts& counts) {
  return {{"name", RoleName(counts.name)},
          {"pending", counts.pending},
          {"active", counts.active},
          {"succeeded", counts.succeeded},
          {"failed", counts.failed}};
}

Json EncodeRestartCount(const RestartCount& restarts) {
  return {{"cause", restarts.cause}, {"count", restarts.count}};
}

// JSON has no infinities and no NaN, and the schema no null: such a number is left out.
void SetNumber(Json* object, const char* key, const std::optional<double>& number) {
  if (number && std::isfinite(*number)) {
    (*object)[key] = *number;
  }
}

Json EncodeProgress(const JobProgress& progress) {
  Json value = {{"step", progress.step},
                {"stepsTotal", progress.steps_total},
                {"dataEpoch", progress.data_epoch},
                {"observedAt", FormatRfc3339(progress.observed_at)}};
  SetNumber(&value, "loss", progress.loss);
  SetNumber(&value, "samplesPerSecond", progress.samples_per_second);
  SetNumber(&value, "etaSeconds", progress.eta_seconds);
  return value;
}

Json EncodeResult(const TestResult& result) {
  Json value = Json::object();
  SetNumber(&value, "testLoss", result.test_loss);
  SetNumber(&value, "testAccuracy", result.test_accuracy);
  return value;
}

template <typename Item>
Json EncodeList(const std::vector<Item>& items, Json (*encode)(const Item&)) {
  Json list = Json::array();
  for (const Item& item : items) {
    list.push_back(encode(item));
  }
  return list;
}

}  // namespace

TrainingJobStatus DecodeStatus(const Json& value,
                               const std::string& path,
                               std::vector<Error>* errors) {
  TrainingJobStatus status;
  ObjectReader reader(value, path, errors);
  status.conditions = DecodeList(reader, "conditions", DecodeCondition, errors);
  status.attempt = Attempt(ReadCount(reader, "attempt"));
  status.epoch = Epoch(ReadCount(reader, "epoch"));
  status.placement = DecodeList(reader, "placement", DecodePlacement, errors);
  status.roles = DecodeList(reader, "roles", DecodeRoleCounts, errors);
  status.restarts = DecodeList(reader, "restarts", DecodeRestartCount, errors);
  if (const Json* progress = reader.Find("progress")) {
    status.progress = DecodeProgress(*progress, reader.PathOf("progress"), errors);
  }
  if (const Json* result = reader.Find("result")) {
    status.result = DecodeTestResult(*result, reader.PathOf("result"), errors);
  }
  status.start_time = ReadTime(reader, "startTime");
  status.completion_time = ReadTime(reader, "completionTime");
  status.observed_generation = ReadCount(reader, "observedGeneration");
  status.control_counter = ReadCount(reader, "controlCounter");
  status.rollbacks = ReadCount(reader, "rollbacks");
  status.quick_restarts = ReadCount(reader, "quickRestarts");
  status.retry_at = ReadTime(reader, "retryAt");
  status.waiting_since = ReadTime(reader, "waitingSince");
  status.suspect_nodes = DecodeList(reader, "suspectNodes", DecodeSuspectNode, errors);
  status.admitted = DecodeList(reader, "admitted", DecodeAdmittedAmount, errors);
  PassThrough(reader, {"state", "ready", "restartCount", "reason", "replicas", "selector"});
  reader.Finish();
  return status;
}

Json EncodeStatus(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  const DerivedStatus derived = DeriveStatus(job);
  Json value = {{"state", derived.state},
                {"ready", derived.ready},
                {"restartCount", derived.restart_count},
                {"reason", derived.reason},
                {"replicas", derived.replicas},
                {"selector", derived.selector},
                {"conditions", EncodeList(status.conditions, EncodeCondition)},
                {"attempt", status.attempt.value()},
                {"epoch", status.epoch.value()},
                {"placement", EncodeList(status.placement, EncodePlacement)},
                {"roles", EncodeList(status.roles, EncodeRoleCounts)},
                {"restarts", EncodeList(status.restarts, EncodeRestartCount)},
                {"observedGeneration", status.observed_generation},
                {"controlCounter", status.control_counter},
                {"rollbacks", status.rollbacks},
                {"quickRestarts", status.quick_restarts}};
  if (status.progress) {
    value["progress"] = EncodeProgress(*status.progress);
  }
  if (status.result) {
    value["result"] = EncodeResult(*status.result);
  }
  SetTime(&value, "startTime", status.start_time);
  SetTime(&value, "completionTime", status.completion_time);
  SetTime(&value, "retryAt", status.retry_at);
  SetTime(&value, "waitingSince", status.waiting_since);
  if (!status.suspect_nodes.empty()) {
    value["suspectNodes"] = EncodeList(status.suspect_nodes, EncodeSuspectNode);
  }
  if (!status.admitted.empty()) {
    value["admitted"] = EncodeList(status.admitted, EncodeAdmittedAmount);
  }
  return value;
}

}  // namespace lockstep::control
