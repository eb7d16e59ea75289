#include "operator/api/job/pod_template.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "common/base/io/exec_string.h"
#include "common/contract/text/problems.h"
#include "operator/api/fields/bounds.h"
#include "operator/api/fields/fields.h"
#include "operator/api/fields/labels.h"
#include "operator/api/fields/pod_fields.h"
#include "operator/api/job/job_names.h"
#include "operator/api/job/pod_affinity.h"
#include "operator/api/job/pod_environment.h"
#include "operator/api/job/pod_resources.h"

namespace lockstep::control {
namespace {

// Whether the name is clear of those that the operator gives to what it adds; recorded if not.
bool CheckNotOurs(ObjectReader& reader, const std::string& name) {
  if (name.starts_with(kOwnNamePrefix)) {
    reader.Fail("name",
                Quoted(name) + " found, expected a name that does not begin with " +
                    std::string(kOwnNamePrefix) + ", which is reserved for the operator");
    return false;
  }
  return true;
}

// Words that the kernel takes; what it does not is recorded.
std::vector<std::string> ReadProgramWords(ObjectReader& reader,
                                          std::string_view key,
                                          Errors* errors) {
  std::vector<std::string> words = ReadWords(reader, key, kEntriesMax, errors);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() > kExecStringBytesMax) {
      AddError(errors,
               reader.PathOf(key, i),
               std::to_string(words[i].size()) + " bytes found, expected at most " +
                   std::to_string(kExecStringBytesMax) +
                   ": Linux cannot start a program with a longer argument; put it into a file");
    }
  }
  return words;
}

void ReadCommand(ObjectReader& reader, PodTemplate* pod, Errors* errors) {
  pod->command = ReadProgramWords(reader, "command", errors);
  pod->args = ReadProgramWords(reader, "args", errors);
  if (!pod->command.empty() && pod->command.front().empty()) {
    reader.Fail("command", "starts with \"\", expected a program");
  }
  const Json* const command = reader.Find("command");
  if (command == nullptr ? reader.Has("args") : *command == Json::array() && !pod->args.empty()) {
    reader.Fail("command",
                "missing; set the program here, because args alone rely on the image's entry "
                "point, which the operator cannot see");
  }
}

void ReadContainer(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ObjectReader reader(value, path, errors);
  const std::string name = ReadText(reader, "name");
  const bool is_text = reader.Has("name") && reader.Find("name")->is_string();
  if (is_text && !IsDnsLabel(name)) {
    reader.Fail("name", Quoted(name) + " found, expected " + std::string(kDnsLabelWords));
  } else {
    CheckNotOurs(reader, name);
  }
  if (is_text) {
    pod->trainer_name = name;
  }
  pod->image = ReadText(reader, "image");
  ReadCommand(reader, pod, errors);
  ReadEnvironment(reader, pod, errors);
  pod->working_dir = ReadText(reader, "workingDir");
  if (const Json* resources = reader.Find("resources")) {
    const auto read = ReadResources(*resources, reader.PathOf("resources"), errors);
    pod->requests = read.requests;
    pod->limits = read.limits;
  }
  PassContainerFields(reader);
  reader.Finish();
}

void ReadContainers(ObjectReader& spec, PodTemplate* pod, Errors* errors) {
  if (spec.Require("containers", "a list of one container") == nullptr) {
    return;
  }
  const std::vector<const Json*> containers = spec.List("containers");
  if (spec.Find("containers")->is_array() && containers.size() != 1) {
    spec.Fail("containers",
              std::to_string(containers.size()) +
                  " containers found, expected exactly one; a sidecar is an init container with "
                  "restartPolicy: Always");
    return;
  }
  for (std::size_t i = 0; i < containers.size(); ++i) {
    ReadContainer(*containers[i], spec.PathOf("containers", i), pod, errors);
  }
}

void CheckInitContainerName(ObjectReader& reader, const std::string& name, const PodTemplate& pod) {
  if (!IsDnsLabel(name)) {
    reader.Fail("name", Quoted(name) + " found, expected " + std::string(kDnsLabelWords));
  } else if (!CheckNotOurs(reader, name)) {
    return;
  } else if (name == pod.trainer_name) {
    reader.Fail("name",
                Quoted(name) + " is the name of the trainer container; use a different name");
  } else if (std::any_of(pod.init_containers.begin(),
                         pod.init_containers.end(),
                         [&](const InitContainer& other) { return other.name == name; })) {
    reader.Fail("name", Quoted(name) + " is the name of two init containers");
  }
}

// Most of it is between the user and Kubernetes; what it asks for counts when the gang is placed.
InitContainer ReadInitContainer(const Json& value,
                                const std::string& path,
                                const PodTemplate& pod,
                                Errors* errors) {
  ObjectReader reader(value, path, errors);
  InitContainer container;
  if (reader.Require("name", "the container's name") != nullptr) {
    container.name = ReadText(reader, "name");
    CheckInitContainerName(reader, container.name, pod);
  }
  if (reader.Require("image", "the image to run") != nullptr) {
    ReadText(reader, "image");
  }
  ReadWords(reader, "command", kEntriesMax, errors);
  ReadWords(reader, "args", kEntriesMax, errors);
  ReadText(reader, "workingDir");
  container.is_sidecar = reader.Choice("restartPolicy", {"Always"}).has_value();
  if (const Json* const resources = reader.Find("resources")) {
    const std::string resources_path = reader.PathOf("resources");
    const ContainerResources read = ReadResources(*resources, resources_path, errors);
    container.requests = read.requests;
    if (read.names_gpus) {
      AddError(errors,
               resources_path,
               "asks for GPUs, which only the trainer container may use; remove them");
    }
  }
  PassInitContainerFields(reader);
  reader.Finish();
  return container;
}

void ReadInitContainers(ObjectReader& spec, PodTemplate* pod, Errors* errors) {
  const std::vector<const Json*> containers = ListUpTo(spec, "initContainers", kInitContainersMax);
  for (std::size_t i = 0; i < containers.size(); ++i) {
    pod->init_containers.push_back(
        ReadInitContainer(*containers[i], spec.PathOf("initContainers", i), *pod, errors));
  }
}

// Fields of a pod that the operator writes itself, and what to use instead.
void RefuseOwnedFields(ObjectReader& spec) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOwned = {{
      {"restartPolicy", "is set by the operator; use the role's restartPolicy"},
      {"hostname", "is set by the operator, so that pods find each other; remove this field"},
      {"subdomain", "is set by the operator, so that pods find each other; remove this field"},
      {"nodeName", "is set by the operator when the gang is placed; use nodeSelector"},
      {"ephemeralContainers", "is not part of a template; remove it"},
  }};
  for (const auto& [key, message] : kOwned) {
    if (spec.Has(key)) {
      spec.Fail(key, std::string(message));
    }
  }
}

// What Kubernetes would refuse only once the first pod is created.
void CheckToleration(ObjectReader& reader, const Toleration& toleration) {
  if (toleration.key.empty() && !toleration.is_exists) {
    reader.Fail("key", "missing, expected a taint's key, or operator: Exists for all taints");
  }
  if (toleration.is_exists && !toleration.value.empty()) {
    reader.Fail("value", Quoted(toleration.value) + " found, but operator Exists takes no value");
  }
  if (toleration.seconds && toleration.effect != "NoExecute") {
    reader.Fail("tolerationSeconds", "can be used only with effect: NoExecute");
  }
}

std::vector<Toleration> ReadTolerations(ObjectReader& spec, Errors* errors) {
  std::vector<Toleration> tolerations;
  const std::vector<const Json*> items = ListUpTo(spec, "tolerations", kTolerationsMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader reader(*items[i], spec.PathOf("tolerations", i), errors);
    Toleration toleration;
    toleration.key = ReadText(reader, "key");
    toleration.is_exists =
        reader.Choice("operator", {"Equal", "Exists"}).value_or("Equal") == "Exists";
    toleration.value = ReadText(reader, "value");
    toleration.effect =
        reader.Choice("effect", {"NoSchedule", "PreferNoSchedule", "NoExecute"}).value_or("");
    if (const std::optional<int64_t> seconds = reader.Int("tolerationSeconds")) {
      toleration.seconds = std::chrono::seconds(*seconds);
    }
    CheckLength(reader, "key", kLabelKeyMax);
    CheckLength(reader, "value", kTolerationValueMax);
    CheckToleration(reader, toleration);
    reader.Finish();
    tolerations.push_back(std::move(toleration));
  }
  return tolerations;
}

// Volumes are Kubernetes' own, but for their names. These are labels by RFC 1123, which may begin
// with a digit, too.
void CheckVolumeName(ObjectReader& reader, std::set<std::string>* names) {
  if (reader.Require("name", "the volume's name") == nullptr) {
    return;
  }
  const std::string name = ReadText(reader, "name");
  if (!reader.Find("name")->is_string()) {
    return;
  }
  if (!IsHostLabel(name)) {
    reader.Fail(
        "name",
        Quoted(name) +
            " found, expected lower-case letters, digits and '-', not starting or ending with '-', "
            "at most 63 characters");
  } else if (!names->insert(name).second) {
    reader.Fail("name", Quoted(name) + " is the name of two volumes");
  } else {
    CheckNotOurs(reader, name);
  }
}

void CheckVolumeNames(ObjectReader& spec, Errors* errors) {
  const Json* const volumes = spec.Find("volumes");
  if (volumes == nullptr || !volumes->is_array() || volumes->size() > kEntriesMax) {
    return;  // PassPodFields tells
  }
  const std::vector<const Json*> items = spec.List("volumes");
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i]->is_object()) {
      ObjectReader reader(*items[i], spec.PathOf("volumes", i), errors);
      CheckVolumeName(reader, &names);
    }
  }
}

// The pod's own resources. Precondition: its containers have been read.
void ReadPodLevel(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ResourceVector asked = pod->requests;
  for (const InitContainer& container : pod->init_containers) {
    asked = Larger(asked, container.requests);
  }
  const ContainerResources read = ReadPodLevelResources(value, path, asked, errors);
  pod->pod_requests = read.requests;
  pod->pod_limits = read.limits;
}

void ReadPodSpec(const Json& value, const std::string& path, PodTemplate* pod, Errors* errors) {
  ObjectReader reader(value, path, errors);
  ReadContainers(reader, pod, errors);
  ReadInitContainers(reader, pod, errors);
  RefuseOwnedFields(reader);
  if (const auto seconds = reader.Int("terminationGracePeriodSeconds", 0, kGraceSecondsMax)) {
    pod->termination_grace = std::chrono::seconds(*seconds);
  }
  CheckCount(reader, "nodeSelector", kLabelsMax);
  pod->node_selector = ReadLabels(reader, "nodeSelector", errors);
  pod->tolerations = ReadTolerations(reader, errors);
  PodPlaceRules rules = ReadAffinity(reader, errors);
  pod->node_affinity = std::move(rules.nodes);
  pod->pod_terms = std::move(rules.pods);
  pod->overhead = ReadAmounts(reader, "overhead", errors);
  if (const Json* const resources = reader.Find("resources")) {
    ReadPodLevel(*resources, reader.PathOf("resources"), pod, errors);
  }
  CheckVolumeNames(reader, errors);
  PassPodFields(reader);
  reader.Finish();
}

}  // namespace

LOCKSTEP_DEFINE_VALUE_MEMBERS(PodTemplate);

PodTemplate DecodePodTemplate(const Json& value,
                              const std::string& path,
                              std::vector<Error>* errors) {
  PodTemplate pod;
  pod.raw = value;
  ObjectReader reader(value, path, errors);
  if (const Json* metadata = reader.Find("metadata")) {
    ObjectReader fields(*metadata, reader.PathOf("metadata"), errors);
    CheckCount(fields, "labels", kLabelsMax);
    ReadLabels(fields, "labels", errors);
    CheckCount(fields, "annotations", kLabelsMax);
    ReadAnnotations(fields, "annotations", errors);
    fields.Finish();
  }
  if (const Json* spec = reader.Require("spec", "a pod spec with containers")) {
    ReadPodSpec(*spec, reader.PathOf("spec"), &pod, errors);
  }
  reader.Finish();
  return pod;
}

bool IsReservedVariable(std::string_view name) {
  const bool has_prefix = name.starts_with(kReservedPrefix) && name != kLibraryVariable;
  return has_prefix || std::find(kReservedEnvironment.begin(), kReservedEnvironment.end(), name) !=
                           kReservedEnvironment.end();
}

}  // namespace lockstep::control
