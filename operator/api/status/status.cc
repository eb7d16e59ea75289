#include "operator/api/status/status.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/rfc3339.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/claim.h"
#include "operator/api/job/encode.h"
#include "operator/api/job/job_names.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/derived_status.h"
#include "operator/api/status/job_progress.h"
#include "operator/api/status/job_result.h"
#include "operator/api/status/queue_position.h"
#include "operator/api/status/relaunch_status.h"

namespace lockstep::control {
namespace {

// A condition's truth as Kubernetes writes it.
constexpr EnumNames<bool, 2> kTruthNames = {{{true, "True"}, {false, "False"}}};

Condition DecodeCondition(ObjectReader& reader) {
  Condition condition;
  condition.type = RequireEnum(reader, "type", kConditionTypeNames).value_or(condition.type);
  condition.is_true = RequireEnum(reader, "status", kTruthNames).value_or(false);
  condition.reason = reader.String("reason").value_or("");
  condition.message = reader.String("message").value_or("");
  condition.last_transition = ReadTime(reader, "lastTransitionTime").value_or(WallTime{});
  condition.unknown = reader.Unknown();
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
  placement.has_moved = reader.Bool("moved").value_or(false);
  placement.devices = reader.Strings("devices");
  placement.trouble_since = ReadTime(reader, "troubleSince");
  placement.disruption = reader.String("disruption").value_or("");
  placement.unknown = reader.Unknown();
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

RoleAmount DecodeRoleAmount(ObjectReader& reader) {
  return {RequireEnum(reader, "role", kRoleNames).value_or(Role::kWorker),
          reader.String("resource").value_or(""),
          ReadCount(reader, "amount")};
}

Incident DecodeIncident(ObjectReader& reader) {
  Incident incident;
  incident.at = ReadTime(reader, "at").value_or(WallTime{});
  incident.cause = reader.String("cause").value_or("");
  incident.node = reader.String("node").value_or("");
  incident.step = ReadCount(reader, "step");
  incident.is_free = reader.Bool("free").value_or(false);
  incident.count = reader.Int("count", 1).value_or(1);
  return incident;
}

LastFailure DecodeLastFailure(const Json& value, const std::string& path, Errors* errors) {
  LastFailure failure;
  ObjectReader reader(value, path, errors);
  failure.pod = reader.String("pod").value_or("");
  failure.at = ReadTime(reader, "at").value_or(WallTime{});
  failure.message = reader.String("message").value_or("");
  failure.tail = reader.String("tail").value_or("");
  return failure;
}

// The elements of the list under `key`, each read by `decode`. What counts and progress have
// besides is not kept: they are written anew from what the pods tell.
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
  }
  return items;
}

GangOrigin DecodeOrigin(ObjectReader& reader, Errors* errors) {
  GangOrigin origin{ReadCount(reader, "generation"),
                    reader.String("revision").value_or(""),
                    reader.String("runtimeImage").value_or(""),
                    reader.String("queue").value_or(""),
                    reader.String("priorityClass").value_or("")};
  if (const std::optional<int64_t> priority = reader.Int("priority")) {
    origin.priority = {*priority, reader.Bool("preemptible").value_or(true)};
  }
  if (const std::optional<int64_t> deadline = reader.Int("activeDeadlineSeconds", 0)) {
    origin.active_deadline = std::chrono::seconds(*deadline);
  }
  origin.requests = DecodeList(reader, "requests", DecodeRoleAmount, errors);
  return origin;
}

// A condition of a type that only other versions know.
bool IsForeignCondition(const Json& value) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  return value.is_object() && type != value.end() && type->is_string() &&
         !ValueOf(kConditionTypeNames, type->get<std::string>()).has_value();
}

// What a status from before `hasRun` says of it: Running becomes false with the first loss of an
// attempt that ran, Scheduled true with the start of the next.
bool HasRunByTimes(const TrainingJobStatus& status) {
  const Condition* const running = FindCondition(status, ConditionType::kRunning);
  const Condition* const scheduled = FindCondition(status, ConditionType::kScheduled);
  return !status.placement.empty() && running != nullptr &&
         (running->is_true ||
          (scheduled != nullptr && running->last_transition >= scheduled->last_transition));
}

void DecodeConditions(ObjectReader& reader, Errors* errors, TrainingJobStatus* status) {
  const std::vector<const Json*> values = reader.List("conditions");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (IsForeignCondition(*values[i])) {
      status->unknown_conditions.push_back(*values[i]);
      continue;
    }
    ObjectReader item(*values[i], reader.PathOf("conditions", i), errors);
    status->conditions.push_back(DecodeCondition(item));
  }
}

// Adds the members that were kept; what is known has the last word.
Json WithUnknown(Json value, const Json& unknown) {
  if (unknown.is_object()) {
    for (const auto& [key, kept] : unknown.items()) {
      if (!value.contains(key)) {
        value[key] = kept;
      }
    }
  }
  return value;
}

Json EncodeCondition(const Condition& condition) {
  Json value = {{"type", ConditionTypeName(condition.type)},
                {"status", NameOf(kTruthNames, condition.is_true)},
                {"reason", condition.reason},
                {"message", condition.message},
                {"lastTransitionTime", FormatRfc3339(condition.last_transition)}};
  return WithUnknown(std::move(value), condition.unknown);
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
  if (placement.has_moved) {
    value["moved"] = true;
  }
  if (!placement.devices.empty()) {
    value["devices"] = placement.devices;
  }
  SetTime(&value, "troubleSince", placement.trouble_since);
  if (!placement.disruption.empty()) {
    value["disruption"] = placement.disruption;
  }
  return WithUnknown(std::move(value), placement.unknown);
}

Json EncodeSuspectNode(const SuspectNode& suspect) {
  return {{"node", suspect.node},
          {"reason", suspect.reason},
          {"count", suspect.count},
          {"until", FormatRfc3339(suspect.until)}};
}

Json EncodeRoleAmount(const RoleAmount& one) {
  return {{"role", RoleName(one.role)}, {"resource", one.resource}, {"amount", one.amount}};
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

Json EncodeIncident(const Incident& incident) {
  Json value = {{"at", FormatRfc3339(incident.at)},
                {"cause", incident.cause},
                {"step", incident.step},
                {"count", incident.count}};
  if (!incident.node.empty()) {
    value["node"] = incident.node;
  }
  if (incident.is_free) {
    value["free"] = true;
  }
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

Json EncodeOrigin(const GangOrigin& origin) {
  Json value = {{"generation", origin.generation}, {"revision", origin.revision}};
  if (!origin.runtime_image.empty()) {
    value["runtimeImage"] = origin.runtime_image;
  }
  if (!origin.queue.empty()) {
    value["queue"] = origin.queue;
  }
  if (!origin.priority_class.empty()) {
    value["priorityClass"] = origin.priority_class;
  }
  if (origin.priority.has_value()) {
    value["priority"] = origin.priority->value;
    if (!origin.priority->is_preemptible) {
      value["preemptible"] = false;
    }
  }
  if (origin.active_deadline.has_value()) {
    value["activeDeadlineSeconds"] = origin.active_deadline->count();
  }
  if (!origin.requests.empty()) {
    value["requests"] = EncodeList(origin.requests, EncodeRoleAmount);
  }
  return value;
}

// The status as read, with the one condition that says why it is left alone.
Json EncodeUnreadable(const TrainingJobStatus& status) {
  Json value = *status.unreadable;
  if (!value.is_object()) {
    return value;
  }
  const auto stalled = std::find_if(
      status.conditions.begin(), status.conditions.end(), [](const Condition& condition) {
        return condition.type == ConditionType::kStalled;
      });
  Json& conditions = value["conditions"];
  if (stalled == status.conditions.end() || !(conditions.is_null() || conditions.is_array())) {
    return value;
  }
  Json others = Json::array();
  for (Json& condition : conditions) {
    if (!condition.is_object() ||
        condition.value("type", "") != ConditionTypeName(ConditionType::kStalled)) {
      others.push_back(std::move(condition));
    }
  }
  others.push_back(EncodeCondition(*stalled));
  conditions = std::move(others);
  value["state"] = ConditionTypeName(ConditionType::kStalled);
  value["reason"] = stalled->message;
  return value;
}

}  // namespace

TrainingJobStatus DecodeStatus(const Json& value,
                               const std::string& path,
                               std::vector<Error>* errors) {
  TrainingJobStatus status;
  const std::size_t error_count = errors->size();
  ObjectReader reader(value, path, errors);
  DecodeConditions(reader, errors, &status);
  status.attempt = Attempt(ReadCount(reader, "attempt"));
  status.epoch = Epoch(ReadCount(reader, "epoch"));
  status.placement = DecodeList(reader, "placement", DecodePlacement, errors);
  status.has_run = reader.Bool("hasRun").value_or(HasRunByTimes(status));
  if (const Json* origin = reader.Find("origin")) {
    ObjectReader fields(*origin, reader.PathOf("origin"), errors);
    status.origin = DecodeOrigin(fields, errors);
  }
  status.pod_group = reader.String("podGroup").value_or("");
  status.roles = DecodeList(reader, "roles", DecodeRoleCounts, errors);
  status.restarts = DecodeList(reader, "restarts", DecodeRestartCount, errors);
  status.incidents = DecodeList(reader, "incidents", DecodeIncident, errors);
  if (const Json* progress = reader.Find("progress")) {
    status.progress = DecodeProgress(*progress, reader.PathOf("progress"), errors);
  }
  if (const Json* result = reader.Find("result")) {
    status.result = DecodeResult(*result, reader.PathOf("result"), errors);
  }
  if (const Json* failure = reader.Find("lastFailure")) {
    status.last_failure = DecodeLastFailure(*failure, reader.PathOf("lastFailure"), errors);
  }
  status.start_time = ReadTime(reader, "startTime");
  status.ran_before = std::chrono::seconds(ReadCount(reader, "ranBeforeSeconds"));
  status.preempted_at = ReadTime(reader, "preemptedAt");
  status.completion_time = ReadTime(reader, "completionTime");
  status.observed_generation = ReadCount(reader, "observedGeneration");
  status.control_counter = ReadCount(reader, "controlCounter");
  status.rollbacks = ReadCount(reader, "rollbacks");
  status.quick_restarts = ReadCount(reader, "quickRestarts");
  status.retry_at = ReadTime(reader, "retryAt");
  status.waiting_since = ReadTime(reader, "waitingSince");
  status.relaunch = DecodeRelaunch(reader.Find("relaunch"), reader.PathOf("relaunch"), errors);
  status.claim = DecodeClaim(reader.Find("claim"), reader.PathOf("claim"), errors);
  status.queue = DecodeQueuePosition(reader.Find("queue"), reader.PathOf("queue"), errors);
  status.kueue = DecodeKueueAdmission(reader.Find("kueue"), reader.PathOf("kueue"), errors);
  status.provisioning =
      DecodeCapacityAsk(reader.Find("provisioning"), reader.PathOf("provisioning"), errors);
  status.preemptions = ReadCount(reader, "preemptions");
  status.suspect_nodes = DecodeList(reader, "suspectNodes", DecodeSuspectNode, errors);
  status.admitted = DecodeList(reader, "admitted", DecodeRoleAmount, errors);
  PassThrough(reader,
              {"state", "ready", "restartCount", "reason", "replicas", "selector", "columns"});
  status.unknown = reader.Unknown();
  if (errors->size() > error_count) {
    status.unreadable = std::make_shared<const Json>(value);
  }
  return status;
}

namespace {

// Choice: more than a status has. An object that grows copies all that is in it, the places of
// thousands of pods too.
constexpr std::size_t kFieldsMax = 32;

Json EncodeDerived(const TrainingJob& job) {
  const DerivedStatus derived = DeriveStatus(job);
  return {{"state", derived.state},
          {"ready", derived.ready},
          {"restartCount", derived.restart_count},
          {"reason", derived.reason},
          {"replicas", derived.replicas},
          {"selector", derived.selector},
          {"columns",
           {{"step", derived.cells.step},
            {"loss", derived.cells.loss},
            {"eta", derived.cells.eta},
            {"queue", derived.cells.queue},
            {"reason", derived.cells.reason}}}};
}

// Whether `written` has a field of `derived` with another value, in whatever order they come: an
// API server sorts them.
bool SaysOther(const Json& written, const Json& derived) {
  if (!written.is_object() || !derived.is_object()) {
    return written != derived;
  }
  return std::any_of(derived.items().begin(), derived.items().end(), [&](const auto& field) {
    const auto said = written.find(field.key());
    return said != written.end() && SaysOther(*said, field.value());
  });
}

}  // namespace

bool SaysOtherThanDerived(const Json& status, const TrainingJob& job) {
  return status.is_object() && SaysOther(status, EncodeDerived(job));
}

Json EncodeStatus(const TrainingJob& job) {
  const TrainingJobStatus& status = job.status;
  if (status.unreadable != nullptr) {
    return EncodeUnreadable(status);
  }
  Json value = EncodeDerived(job);
  value.get_ref<Json::object_t&>().reserve(kFieldsMax);
  value["conditions"] = EncodeList(status.conditions, EncodeCondition);
  value["attempt"] = status.attempt.value();
  value["epoch"] = status.epoch.value();
  value["placement"] = EncodeList(status.placement, EncodePlacement);
  if (!status.placement.empty()) {
    value["hasRun"] = status.has_run;
  }
  value["roles"] = EncodeList(status.roles, EncodeRoleCounts);
  value["restarts"] = EncodeList(status.restarts, EncodeRestartCount);
  value["incidents"] = EncodeList(status.incidents, EncodeIncident);
  value["observedGeneration"] = status.observed_generation;
  value["controlCounter"] = status.control_counter;
  value["rollbacks"] = status.rollbacks;
  value["quickRestarts"] = status.quick_restarts;
  if (status.origin != GangOrigin()) {
    value["origin"] = EncodeOrigin(status.origin);
  }
  if (!status.pod_group.empty()) {
    value["podGroup"] = status.pod_group;
  }
  if (status.progress) {
    value["progress"] = EncodeProgress(*status.progress);
  }
  if (status.result) {
    value["result"] = EncodeResult(*status.result);
  }
  if (status.last_failure) {
    value["lastFailure"] = {{"pod", status.last_failure->pod},
                            {"at", FormatRfc3339(status.last_failure->at)},
                            {"message", status.last_failure->message},
                            {"tail", status.last_failure->tail}};
  }
  SetTime(&value, "startTime", status.start_time);
  if (status.ran_before.count() > 0) {
    value["ranBeforeSeconds"] = status.ran_before.count();
  }
  SetTime(&value, "preemptedAt", status.preempted_at);
  SetTime(&value, "completionTime", status.completion_time);
  SetTime(&value, "retryAt", status.retry_at);
  SetTime(&value, "waitingSince", status.waiting_since);
  SetRelaunch(status.relaunch, &value);
  SetClaim(status.claim, &value);
  SetQueuePosition(status.queue, &value);
  SetKueueAdmission(status.kueue, &value);
  SetCapacityAsk(status.provisioning, &value);
  if (status.preemptions > 0) {
    value["preemptions"] = status.preemptions;
  }
  if (!status.suspect_nodes.empty()) {
    value["suspectNodes"] = EncodeList(status.suspect_nodes, EncodeSuspectNode);
  }
  if (!status.admitted.empty()) {
    value["admitted"] = EncodeList(status.admitted, EncodeRoleAmount);
  }
  for (const Json& condition : status.unknown_conditions) {
    value["conditions"].push_back(condition);
  }
  return WithUnknown(std::move(value), status.unknown);
}

}  // namespace lockstep::control
