#include "operator/api/decode_job.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "common/contract/command/python_command.h"
#include "common/contract/environment/topology.h"
#include "common/contract/text/problems.h"
#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"
#include "operator/api/fields/labels.h"
#include "operator/api/job/defaults.h"
#include "operator/api/job/job_names.h"
#include "operator/api/job/pod_resources.h"
#include "operator/api/job/pod_template.h"
#include "operator/api/queue/training_queue.h"
#include "operator/api/rules/rules.h"
#include "operator/api/status/status.h"

namespace lockstep::control {
namespace {

std::string ReadLabel(ObjectReader& reader, std::string_view key, std::string fallback) {
  const std::string text = ReadText(reader, key);
  const bool is_text = reader.Has(key) && reader.Find(key)->is_string();
  if (is_text && !IsDnsLabel(text)) {
    reader.Fail(key, Quoted(text) + " found, expected " + std::string(kDnsLabelWords));
  }
  return is_text ? text : std::move(fallback);
}

// Source: Kubernetes' NameIsDNSSubdomain of a prefix.
bool IsNamePrefix(const std::string& text) {
  const bool ends_with_dash = text.size() > 1 && text.back() == '-';
  return IsDnsName(ends_with_dash ? text.substr(0, text.size() - 2).append("a") : text);
}

// With generateName the API server makes the name; where there is none, a fixed ending of the same
// length makes the same rules hold.
std::string ReadName(ObjectReader& reader) {
  constexpr std::string_view kGeneratedEnding = "local";
  constexpr std::size_t kPrefixBytesMax = 58;  // the API server cuts longer ones
  const std::string prefix = ReadText(reader, "generateName");
  const Json* const written = reader.Find("name");
  const bool has_name = written != nullptr && *written != "";
  if (has_name || prefix.empty()) {
    if (!prefix.empty() && !IsNamePrefix(prefix)) {  // it plays no part, and is judged all the same
      reader.Fail("generateName",
                  Quoted(prefix) +
                      " found, expected the start of a DNS name: lower-case letters, digits, '-' "
                      "and '.', starting with a letter or digit");
    }
    reader.Require("name", std::string(kDnsLabelWords) + ", or a generateName");
    return ReadLabel(reader, "name", "");
  }
  std::string name = prefix.substr(0, kPrefixBytesMax).append(kGeneratedEnding);
  if (!IsDnsLabel(name) || !IsNamePrefix(prefix)) {
    reader.Fail("generateName",
                Quoted(prefix) + " found, expected the start of " + std::string(kDnsLabelWords));
    name.clear();
  }
  return name;
}

std::optional<std::chrono::seconds> ReadSeconds(ObjectReader& reader,
                                                std::string_view key,
                                                int64_t min) {
  const std::optional<int64_t> seconds = reader.Int(key, min, kSecondsMax);
  return seconds ? std::optional(std::chrono::seconds(*seconds)) : std::nullopt;
}

std::chrono::milliseconds ReadRecoverySeconds(ObjectReader& reader,
                                              std::string_view key,
                                              std::chrono::milliseconds fallback) {
  const std::optional<double> seconds =
      reader.Number(key, kRecoverySecondsMin, kRecoverySecondsMax);
  return seconds ? std::chrono::milliseconds(std::llround(*seconds * 1000)) : fallback;
}

}  // namespace

Metadata DecodeMetadata(const Json& value, Errors* errors) {
  Metadata metadata;
  ObjectReader reader(value, "metadata", errors);
  metadata.name = ReadName(reader);
  metadata.namespace_name = ReadLabel(reader, "namespace", metadata.namespace_name);
  metadata.uid = ReadText(reader, "uid");
  metadata.generation = reader.Int("generation", 0).value_or(0);
  metadata.labels = ReadLabels(reader, "labels", errors);
  metadata.annotations = ReadAnnotations(reader, "annotations", errors);
  // Written by the API server; the operator does not read them here.
  PassThrough(reader,
              {"creationTimestamp",
               "deletionGracePeriodSeconds",
               "deletionTimestamp",
               "finalizers",
               "managedFields",
               "ownerReferences",
               "resourceVersion",
               "selfLink"});
  reader.Finish();
  return metadata;
}

namespace {

// GPUs may stand in the template's resources instead, as Kubernetes programs write them.
void ReconcileGpus(ObjectReader& reader, RoleSpec* role) {
  const int64_t in_template = role->pod.requests.gpu_count;
  if (!reader.Has("gpus")) {
    role->gpus = in_template;
  } else if (in_template != 0 && in_template != role->gpus) {
    reader.Fail("gpus",
                std::to_string(role->gpus) + " found, but the template also asks for " +
                    std::to_string(in_template) +
                    " nvidia.com/gpu; remove nvidia.com/gpu from the template");
  }
}

std::vector<std::string> ReadModules(ObjectReader& reader, Errors* errors) {
  std::vector<std::string> modules;
  const std::vector<const Json*> items = ListUpTo(reader, "warm", kWarmModulesMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Json& item = *items[i];
    if (item.is_string() && IsModuleName(item.get<std::string>())) {
      modules.push_back(item.get<std::string>());
    } else {
      AddError(errors,
               reader.PathOf("warm", i),
               DescribeJson(item) +
                   " found, expected a string that names a Python module, such as torch");
    }
  }
  return modules;
}

RoleSpec DecodeRole(const Json& value, const std::string& path, Errors* errors) {
  RoleSpec role;
  ObjectReader reader(value, path, errors);
  role.name = RequireEnum(reader, "name", kRoleNames).value_or(role.name);
  role.replicas = reader.Int("replicas", 0, kReplicasMax).value_or(role.replicas);
  role.gpus = reader.Int("gpus", 0, kGpusMax).value_or(role.gpus);
  role.processes = reader.Int("processes", 1, kProcessesMax).value_or(0);  // 0: left to Default
  role.launcher = ReadEnum(reader, "launcher", kProcessLauncherNames);
  role.gpu_visibility = ReadEnum(reader, "gpuVisibility", kGpuVisibilityNames);
  role.shared_memory = ReadAmount(reader, "sharedMemory", 1, errors);
  role.restart_policy =
      ReadEnum(reader, "restartPolicy", kRestartPolicyNames).value_or(role.restart_policy);
  role.supervise = reader.Bool("supervise").value_or(role.supervise);
  role.warm = ReadModules(reader, errors);
  if (const Json* pod = reader.Find("template")) {
    role.pod = DecodePodTemplate(*pod, reader.PathOf("template"), errors);
  }
  ReconcileGpus(reader, &role);
  reader.Finish();
  return role;
}

std::vector<RoleSpec> DecodeRoles(ObjectReader& spec, Errors* errors) {
  std::vector<RoleSpec> roles;
  if (spec.Require("roles", "a list of roles such as [{name: worker, replicas: 3}]") == nullptr) {
    return roles;
  }
  const std::vector<const Json*> items = spec.List("roles");
  if (spec.Find("roles")->is_array() && items.empty()) {
    spec.Fail("roles", "empty, expected at least a worker or a chief");
  }
  if (items.size() > kRolesMax * 2) {  // a few too many are named one by one as duplicates
    spec.Fail("roles",
              std::to_string(items.size()) + " roles found, expected at most " +
                  std::to_string(kRolesMax));
    return roles;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    roles.push_back(DecodeRole(*items[i], spec.PathOf("roles", i), errors));
  }
  return roles;
}

RunPolicy DecodeRunPolicy(const Json& value, const std::string& path, Errors* errors) {
  RunPolicy policy;
  ObjectReader reader(value, path, errors);
  policy.suspend = reader.Bool("suspend").value_or(policy.suspend);
  policy.managed_by =
      reader.Choice("managedBy", {"lockstep.dev/operator", "kueue.x-k8s.io/multikueue"})
          .value_or(policy.managed_by);
  policy.clean_pod_policy =
      ReadEnum(reader, "cleanPodPolicy", kCleanPodPolicyNames).value_or(policy.clean_pod_policy);
  policy.active_deadline = ReadSeconds(reader, "activeDeadlineSeconds", 1);
  policy.ttl_after_finished = ReadSeconds(reader, "ttlSecondsAfterFinished", 0);
  policy.evaluator_grace =
      ReadSeconds(reader, "evaluatorGraceSeconds", 0).value_or(policy.evaluator_grace);
  policy.backoff_limit = reader.Int("backoffLimit", 0, kRestartsMax).value_or(policy.backoff_limit);
  reader.Finish();
  return policy;
}

void CheckLevel(ObjectReader& reader, const char* key, const std::string& level) {
  if (!level.empty() && !IsLabelKey(level)) {
    reader.Fail(
        key, Quoted(level) + " found, expected the key of a node label, such as example.com/rack");
  }
}

SchedulingSpec DecodeScheduling(const Json& value, const std::string& path, Errors* errors) {
  SchedulingSpec scheduling;
  ObjectReader reader(value, path, errors);
  scheduling.queue = ReadLabel(reader, "queue", "");
  scheduling.priority_class_name = ReadText(reader, "priorityClassName");
  if (!scheduling.priority_class_name.empty() && !IsDnsName(scheduling.priority_class_name)) {
    reader.Fail("priorityClassName",
                Quoted(scheduling.priority_class_name) +
                    " found, expected the name of a PriorityClass: lower-case letters, digits, '-' "
                    "and '.', at most 253 characters");
  }
  if (const Json* topology = reader.Find("topology")) {
    ObjectReader keys(*topology, reader.PathOf("topology"), errors);
    scheduling.topology = {ReadText(keys, "required"), ReadText(keys, "preferred")};
    CheckLevel(keys, "required", scheduling.topology.required);
    CheckLevel(keys, "preferred", scheduling.topology.preferred);
    keys.Finish();
  }
  scheduling.timeout = ReadSeconds(reader, "timeoutSeconds", 1);
  scheduling.start_timeout =
      ReadSeconds(reader, "startTimeoutSeconds", 1).value_or(scheduling.start_timeout);
  scheduling.binding = ReadEnum(reader, "binding", kPodBindingNames).value_or(scheduling.binding);
  scheduling.provisioning =
      ReadEnum(reader, "provisioning", kProvisioningNames).value_or(scheduling.provisioning);
  reader.Finish();
  return scheduling;
}

ElasticSpec DecodeElastic(const Json& value, const std::string& path, Errors* errors) {
  ElasticSpec elastic;
  ObjectReader reader(value, path, errors);
  reader.Require("minReplicas", "a whole number of at least 1");
  reader.Require("maxReplicas", "a whole number of at least 1");
  elastic.min_replicas = reader.Int("minReplicas", 1, kReplicasMax).value_or(1);
  elastic.max_replicas = reader.Int("maxReplicas", 1, kReplicasMax).value_or(1);
  reader.Finish();
  return elastic;
}

RecoverySpec DecodeRecovery(const Json& value, const std::string& path, Errors* errors) {
  RecoverySpec recovery;
  ObjectReader reader(value, path, errors);
  recovery.replacement_timeout =
      ReadRecoverySeconds(reader, "replacementTimeoutSeconds", recovery.replacement_timeout);
  recovery.rendezvous_timeout =
      ReadRecoverySeconds(reader, "rendezvousTimeoutSeconds", recovery.rendezvous_timeout);
  recovery.silent_after = ReadRecoverySeconds(reader, "silentAfterSeconds", recovery.silent_after);
  if (const auto seconds =
          reader.Number("hungAfterSeconds", kHungSecondsMin, kRecoverySecondsMax)) {
    recovery.hung_after = std::chrono::milliseconds(std::llround(*seconds * 1000));
  }
  recovery.relaunch = reader.Bool("relaunch").value_or(false);
  reader.Finish();
  return recovery;
}

// The number of workers may stand in spec.replicas, where `kubectl scale` writes it; 0 says none.
void ResolveReplicas(ObjectReader& reader, TrainingJobSpec* spec, Errors* errors) {
  const std::optional<int64_t> replicas = reader.Int("replicas", 0, kReplicasMax);
  if (replicas.value_or(0) == 0) {
    return;
  }
  for (RoleSpec& role : spec->roles) {
    if (role.name == Role::kWorker) {
      role.replicas = *replicas;
      return;
    }
  }
  errors->push_back(Error(ErrorCode::kMissingField,
                          "is the number of workers, but the job has no role worker; add that role")
                        .WithField(reader.PathOf("replicas")));
}

// What the rules, from error `first` on, say of the worker's replicas is then said of
// spec.replicas, which is where they come from.
void BlameSpecReplicas(const TrainingJobSpec& spec, std::size_t first, Errors* errors) {
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    const std::string path = "spec.roles[" + std::to_string(i) + "].replicas";
    for (std::size_t e = first; spec.roles[i].name == Role::kWorker && e < errors->size(); ++e) {
      Error& error = (*errors)[e];
      error = error.field() == path
                  ? Error(error.code(), error.message()).WithField("spec.replicas")
                  : error;
    }
  }
}

VariablePlacement PlacementUnder(Strategy strategy) {
  switch (strategy) {
    case Strategy::kCentralStorage:
      return VariablePlacement::kCentral;
    case Strategy::kIndependent:
      return VariablePlacement::kIndependent;
    case Strategy::kParameterServer:
      return VariablePlacement::kParameterServers;
    default:
      return VariablePlacement::kMirrored;
  }
}

TrainingJobSpec DecodeSpec(const Json& value, Errors* errors) {
  TrainingJobSpec spec;
  ObjectReader reader(value, "spec", errors);
  spec.strategy = ReadEnum(reader, "strategy", kStrategyNames).value_or(spec.strategy);
  spec.roles = DecodeRoles(reader, errors);
  ResolveReplicas(reader, &spec, errors);
  if (const Json* training = reader.Find("training")) {
    spec.training = DecodeTrainingSpec(*training, reader.PathOf("training"), errors);
    spec.training->variables = PlacementUnder(spec.strategy);
  }
  if (const Json* policy = reader.Find("runPolicy")) {
    spec.run_policy = DecodeRunPolicy(*policy, reader.PathOf("runPolicy"), errors);
  }
  spec.success_policy =
      ReadEnum(reader, "successPolicy", kSuccessPolicyNames).value_or(spec.success_policy);
  if (const Json* scheduling = reader.Find("scheduling")) {
    spec.scheduling = DecodeScheduling(*scheduling, reader.PathOf("scheduling"), errors);
  }
  if (const Json* elastic = reader.Find("elastic")) {
    spec.elastic = DecodeElastic(*elastic, reader.PathOf("elastic"), errors);
  }
  if (const Json* recovery = reader.Find("recovery")) {
    spec.recovery = DecodeRecovery(*recovery, reader.PathOf("recovery"), errors);
  }
  reader.Finish();
  return spec;
}

// Whether the document is of our kind, or nearly: then its fields are worth judging.
bool CheckKind(ObjectReader& reader) {
  const std::string expected(kTrainingJobKind);
  if (reader.Require("kind", expected) == nullptr) {
    return true;
  }
  const Json& kind = *reader.Find("kind");
  if (kind == expected) {
    return true;
  }
  const std::string nearest(kind.is_string() ? NearestWord(kind.get<std::string>(),
                                                           {kTrainingJobKind, kTrainingQueueKind})
                                             : "");
  reader.Fail("kind",
              DescribeJson(kind) + " found, expected " + expected +
                  (nearest == kTrainingQueueKind ? " or " + nearest : "") +
                  (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
  return nearest == expected;
}

void CheckApiVersion(ObjectReader& reader) {
  const std::string expected(kApiVersion);
  if (reader.Require("apiVersion", expected) == nullptr) {
    return;
  }
  const Json& version = *reader.Find("apiVersion");
  if (version != expected) {
    const bool is_near =
        version.is_string() && !NearestWord(version.get<std::string>(), {kApiVersion}).empty();
    reader.Fail("apiVersion",
                DescribeJson(version) + " found, expected " + expected +
                    (is_near ? "; did you mean \"" + expected + "\"?" : ""));
  }
}

}  // namespace

DecodedJob DecodeTrainingJob(const Json& document) {
  DecodedJob decoded;
  Errors* errors = &decoded.errors;
  ObjectReader reader(document, "", errors);
  if (!document.is_object() || !CheckKind(reader)) {
    return decoded;
  }
  CheckApiVersion(reader);
  if (const Json* metadata = reader.Require("metadata", "an object with a name")) {
    decoded.job.metadata = DecodeMetadata(*metadata, errors);
  }
  if (const Json* spec = reader.Require("spec", "an object with roles")) {
    decoded.job.spec = DecodeSpec(*spec, errors);
  }
  if (const Json* status = reader.Find("status")) {
    decoded.job.status = DecodeStatus(*status, "status", &decoded.status_errors);
  }
  reader.Finish();
  decoded.is_newer = MayBeNewer(*errors);  // before the rules, which follow from what is read
  Default(&decoded.job);
  const std::size_t known_count = errors->size();
  CheckRules(decoded.job, errors);
  if (document.contains("spec") && document["spec"].is_object() &&
      document["spec"].contains("replicas")) {
    BlameSpecReplicas(decoded.job.spec, known_count, errors);
  }
  return decoded;
}

}  // namespace lockstep::control
