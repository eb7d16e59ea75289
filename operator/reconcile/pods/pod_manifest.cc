#include "operator/reconcile/pods/pod_manifest.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/quantity.h"
#include "common/contract/environment/environment.h"
#include "operator/api/fields/json_edit.h"
#include "operator/api/job/placement.h"
#include "operator/api/job/template_parts.h"
#include "operator/reconcile/gang/gang_binding.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/pods/job_objects.h"
#include "operator/reconcile/pods/node_tie.h"
#include "operator/reconcile/pods/pod.h"
#include "operator/reconcile/pods/restrict_container.h"
#include "operator/reconcile/pods/status_server.h"

namespace lockstep::control {
namespace {

// Which container `kubectl logs` and `kubectl exec` mean when none is named.
constexpr const char* kDefaultContainerAnnotation = "kubectl.kubernetes.io/default-container";

constexpr const char* kGpuResource = "nvidia.com/gpu";

// Names of what the operator adds to a pod. The prefix keeps clear of a template's own.
constexpr const char* kKeyVolume = "lockstep-key";
constexpr const char* kInstallVolume = "lockstep-bin";
constexpr const char* kWorkVolume = "lockstep-work";
constexpr const char* kSharedMemoryVolume = "lockstep-shm";
constexpr const char* kInstallContainer = "lockstep-install";
constexpr const char* kSharedMemoryPath = "/dev/shm";
constexpr int64_t kSharedMemoryMin = 64LL << 20;  // what container runtimes give to each

// Readable by any user: without an fsGroup the file belongs to root, and the trainer is not root.
// Only the trainer container mounts it.
constexpr int kKeyFileMode = 0444;

// Keys that the operator adds, at most, to a spec and to the trainer's container.
constexpr std::size_t kSpecKeysMax = 16;
constexpr std::size_t kTrainerKeysMax = 16;

// What one manifest is made of.
struct Parts {
  const TrainingJob& job;
  const RoleSpec& role;
  const kube::Pod& pod;
  const PodSettings& settings;
};

// The runtime of the gang's other pods: they would not understand another version's plan.
const std::string& RuntimeImageOf(const Parts& parts) {
  const std::string& born = parts.job.status.origin.runtime_image;
  return born.empty() ? parts.settings.runtime_image : born;
}

// The folder of an absolute path, and the name in it.
std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  LOCKSTEP_CHECK(slash != std::string::npos && slash > 0, "not an absolute path: " + path);
  return {path.substr(0, slash), path.substr(slash + 1)};
}

void MountVolume(const char* volume, const std::string& path, bool is_read_only, Json* container) {
  if (Json* const mounts = ListAt(container, "volumeMounts")) {
    Json mount = {{"name", volume}, {"mountPath", path}};
    if (is_read_only) {
      mount["readOnly"] = true;
    }
    mounts->push_back(std::move(mount));
  }
}

void AddVolume(const char* name, const char* kind, Json source, Json* spec) {
  if (Json* const volumes = ListAt(spec, "volumes")) {
    volumes->push_back({{"name", name}, {kind, std::move(source)}});
  }
}

// The container that the operator looks after: the one named "trainer", else the first, else a new
// one. Null when the template's list is no list.
Json* TrainerOf(Json* spec) {
  Json* const containers = ListAt(spec, "containers");
  if (containers == nullptr) {
    return nullptr;
  }
  if (containers->empty()) {
    containers->push_back(Json::object());
  }
  const auto named = std::find_if(containers->begin(), containers->end(), [](const Json& one) {
    const Json* const name = FindField(one, "name");
    return name != nullptr && *name == kTrainerContainer;
  });
  Json& trainer = named == containers->end() ? containers->front() : *named;
  return trainer.is_object() ? &trainer : nullptr;
}

// Kubernetes expands $(NAME) in values and reads $$ as $; ours are meant letter by letter.
std::string WithoutExpansion(const std::string& value) {
  std::string text;
  text.reserve(value.size());
  for (const char c : value) {
    text.append(c == '$' ? 2 : 1, c);
  }
  return text;
}

// {"name": name, "value": value}, of which every pod has dozens.
Json Variable(const std::string& name, std::string value) {
  Json variable = Json::object();
  auto& fields = variable.get_ref<Json::object_t&>();
  fields.reserve(2);
  fields.emplace_back("name", name);
  fields.emplace_back("value", std::move(value));
  return variable;
}

// The contract's variables, and after them the template's own as written, which may refer to them.
Json EnvironmentOf(const Parts& parts, const Json& trainer) {
  const auto& own = parts.role.pod.env;
  Json variables = Json::array();
  std::map<std::string, std::string> ours = parts.pod.spec.container.env;
  for (const auto& [name, value] : own) {
    if (const auto found = ours.find(name); found != ours.end() && found->second == value) {
      ours.erase(found);
    }
  }
  for (const EnvironmentSource& source : parts.role.pod.env_sources) {
    ours.erase(source.variable);
  }
  for (const auto& [name, value] : ours) {
    variables.push_back(Variable(name, WithoutExpansion(value)));
  }
  const Json* const written = FindField(trainer, "env");
  if (written != nullptr && written->is_array()) {
    for (const Json& variable : *written) {
      const Json* const name = FindField(variable, "name");
      if (name == nullptr || !name->is_string() || ours.count(name->get<std::string>()) == 0) {
        variables.push_back(variable);
      }
    }
  }
  return variables;
}

void AskForGpus(int64_t count, Json* trainer) {
  if (count == 0) {
    return;
  }
  Json* const resources = ObjectAt(trainer, "resources");
  if (Json* const limits = ObjectAt(resources, "limits")) {
    (*limits)[kGpuResource] = std::to_string(count);  // the request follows the limit
  }
  if (resources != nullptr && FindField(*resources, "requests") != nullptr) {
    if (Json* const requests = ObjectAt(resources, "requests")) {
      (*requests)[kGpuResource] = std::to_string(count);
    }
  }
}

void FillTrainer(const Parts& parts, Json* trainer) {
  const kube::ContainerSpec& container = parts.pod.spec.container;
  SetDefault(trainer, "name", kTrainerContainer);
  if (container.image.empty()) {
    (*trainer)["image"] = RuntimeImageOf(parts);
    if (!parts.settings.runtime_image_pull_policy.empty()) {
      SetDefault(trainer, "imagePullPolicy", parts.settings.runtime_image_pull_policy);
    }
  }
  if (!container.command.empty()) {
    (*trainer)["command"] = container.command;
    trainer->erase("args");
  }
  (*trainer)["env"] = EnvironmentOf(parts, *trainer);
  AskForGpus(parts.role.gpus, trainer);
  if (IsSupervised(parts.job, parts.role)) {
    DeclareStatusServer(parts.job.spec.training.has_value(), trainer);
    if (!parts.settings.termination_message_file.empty()) {
      (*trainer)["terminationMessagePath"] = parts.settings.termination_message_file;
    }
  }
  SetDefault(trainer, "terminationMessagePolicy", "FallbackToLogsOnError");
}

void AddKey(const Parts& parts, Json* trainer, Json* spec) {
  if (parts.settings.job_key_file.empty() || !IsSupervised(parts.job, parts.role)) {
    return;
  }
  const auto [folder, file] = SplitPath(parts.settings.job_key_file);
  AddVolume(kKeyVolume,
            "secret",
            {{"secretName", KeySecretName(parts.job.metadata)},
             {"defaultMode", kKeyFileMode},
             {"items", Json::array({{{"key", kSecretField}, {"path", file}}})}},
            spec);
  MountVolume(kKeyVolume, folder, /*is_read_only=*/true, trainer);
}

// Our runtime is copied in front of a user's image. The init container asks for what the trainer
// asks for, GPUs aside: a pod's need is the larger of the two, so it costs nothing, and a quota
// that wants every container to ask is content.
void AddInstaller(const Parts& parts, Json* trainer, Json* spec) {
  const std::string& folder = parts.settings.install_directory;
  if (!NeedsInstall(parts.job, parts.role, parts.settings)) {
    return;
  }
  Json installer = {{"name", kInstallContainer},
                    {"image", RuntimeImageOf(parts)},
                    {"command", Json::array({parts.settings.runtime_path, "install", folder})}};
  if (!parts.settings.runtime_image_pull_policy.empty()) {
    installer["imagePullPolicy"] = parts.settings.runtime_image_pull_policy;
  }
  if (const Json* const resources = FindField(*trainer, "resources")) {
    for (const char* const kind : {"requests", "limits"}) {
      const Json* const amounts = FindField(*resources, kind);
      for (const char* const name : {"cpu", "memory"}) {
        const Json* const amount = amounts == nullptr ? nullptr : FindField(*amounts, name);
        if (amount != nullptr) {
          installer["resources"][kind][name] = *amount;
        }
      }
    }
  }
  MountVolume(kInstallVolume, folder, /*is_read_only=*/false, &installer);
  AddVolume(kInstallVolume, "emptyDir", Json::object(), spec);
  MountVolume(kInstallVolume, folder, /*is_read_only=*/true, trainer);
  if (Json* const installers = ListAt(spec, "initContainers")) {
    installers->insert(installers->begin(), std::move(installer));
  }
}

// Without a volume of the template's own, checkpoints go to one that lasts as long as the pod.
void AddWorkVolume(const Parts& parts, Json* trainer, Json* spec) {
  const auto& variables = parts.pod.spec.container.env;
  const auto checkpoints = variables.find(env::kCheckpointDirectory);
  if (checkpoints == variables.end() || HasMountFor(*trainer, checkpoints->second)) {
    return;
  }
  const std::string& folder = parts.settings.job_directory;
  const bool is_below = !folder.empty() && IsWithinFolder(checkpoints->second, folder);
  AddVolume(kWorkVolume, "emptyDir", Json::object(), spec);
  MountVolume(
      kWorkVolume, is_below ? folder : checkpoints->second, /*is_read_only=*/false, trainer);
}

// Bytes of the container's /dev/shm: what the role says, else half of its memory limit, or of the
// pod's; nullopt: no bound of its own. What is in there counts as the container's memory.
std::optional<int64_t> SharedMemoryOf(const RoleSpec& role, const Json& trainer) {
  if (role.shared_memory.has_value()) {
    return role.shared_memory;
  }
  const Json& limits = ObjectOr(ObjectOr(trainer, "resources"), "limits");
  const Json* const memory = FindField(limits, "memory");
  if (memory == nullptr) {
    const int64_t of_pod = role.pod.pod_limits.memory_bytes;
    return of_pod == 0 ? std::nullopt : std::optional(std::max(of_pod / 2, kSharedMemoryMin));
  }
  const Result<int64_t> bytes = ParseQuantity(
      memory->is_string() ? memory->get<std::string>() : DumpJson(*memory), QuantityUnit::kOnes);
  return bytes.ok() ? std::optional(std::max(*bytes / 2, kSharedMemoryMin)) : std::nullopt;
}

// A container's own /dev/shm has 64 MiB, less than NCCL wants, or torch for a DataLoader's workers.
void AddSharedMemory(const Parts& parts, Json* trainer, Json* spec) {
  if (HasMountFor(*trainer, kSharedMemoryPath)) {
    return;
  }
  Json volume = {{"medium", "Memory"}};
  if (const std::optional<int64_t> bytes = SharedMemoryOf(parts.role, *trainer)) {
    volume["sizeLimit"] = std::to_string(*bytes);
  }
  AddVolume(kSharedMemoryVolume, "emptyDir", std::move(volume), spec);
  MountVolume(kSharedMemoryVolume, kSharedMemoryPath, /*is_read_only=*/false, trainer);
}

// Images made for GPUs often ask to see all of them; the node would show them uncounted.
void HideGpus(Json* container) {
  Json* const variables = ListAt(container, "env");
  if (variables == nullptr) {
    return;
  }
  const bool is_set = std::any_of(variables->begin(), variables->end(), [](const Json& variable) {
    const Json* const name = FindField(variable, "name");
    return name != nullptr && *name == kNvidiaVisibleDevices;
  });
  if (!is_set) {
    variables->push_back({{"name", kNvidiaVisibleDevices}, {"value", "none"}});
  }
}

// Whether the container gets what the `restricted` level asks for: everywhere under that level, and
// always in the operator's own image, which is made for it. An image of somebody else's may have to
// be root, and Kubernetes would not start it.
bool IsRestricted(const PodSettings& settings, const Json& container) {
  const Json* const image = FindField(container, "image");
  return settings.pod_security == PodSecurityLevel::kRestricted ||
         (image != nullptr && *image == settings.runtime_image);
}

void SecureContainers(const PodSettings& settings, Json* spec) {
  const Json& pod_security = ObjectOr(*spec, "securityContext");
  const bool hides_gpus = !AsksForDevice(*spec);
  for (const char* const kind : {"initContainers", "containers"}) {
    if (FindField(*spec, kind) == nullptr) {
      continue;
    }
    Json* const containers = ListAt(spec, kind);
    for (std::size_t i = 0; containers != nullptr && i < containers->size(); ++i) {
      Json& container = (*containers)[i];
      if (container.is_object()) {
        if (hides_gpus) {
          HideGpus(&container);
        }
        if (IsRestricted(settings, container)) {
          RestrictContainer(pod_security, &container);
        }
      }
    }
  }
}

// The secrets have to be in the job's namespace; a pod may name some that are not there.
void AddPullSecrets(const Parts& parts, Json* spec) {
  const bool pulls =
      parts.pod.spec.container.image.empty() || NeedsInstall(parts.job, parts.role, parts.settings);
  if (!pulls || parts.settings.runtime_image_pull_secrets.empty()) {
    return;
  }
  Json* const secrets = ListAt(spec, "imagePullSecrets");
  for (const std::string& name : parts.settings.runtime_image_pull_secrets) {
    const Json secret = {{"name", name}};
    if (secrets != nullptr &&
        std::find(secrets->begin(), secrets->end(), secret) == secrets->end()) {
      secrets->push_back(secret);
    }
  }
}

// To the node that was planned; or, where kube-scheduler chooses, to its PodGroup.
void TieToPlace(const Parts& parts, Json* spec) {
  const kube::PodSpec& planned = parts.pod.spec;
  if (!planned.pod_group.empty()) {
    (*spec)["schedulingGroup"] = {{"podGroupName", planned.pod_group}};
  }
  if (planned.node_name.empty()) {
    const auto identity = ParsePodLabels(parts.pod.labels);
    const PodPlacement* const placement = FindPlacement(parts.job.status, identity->task);
    if (placement != nullptr) {
      KeepFromNodes(NodesToAvoid(parts.job.status, *placement), spec);
    }
  } else if (parts.job.spec.scheduling.binding == PodBinding::kDirect) {
    (*spec)["nodeName"] = planned.node_name;
  } else {
    PinToNode(planned.node_name, spec);
  }
}

// What Kueue's admission says of the role's pods.
void AddAdmission(const Parts& parts, Json* metadata, Json* spec) {
  const KueuePodSet* const admitted = FindPodSet(parts.job.status.kueue, parts.role.name);
  if (admitted == nullptr) {
    return;
  }
  for (const auto& [key, entries, object] :
       {std::tuple("labels", &admitted->labels, metadata),
        std::tuple("annotations", &admitted->annotations, metadata),
        std::tuple("nodeSelector", &admitted->node_selector, spec)}) {
    for (const auto& [name, value] : *entries) {
      if (Json* const values = ObjectAt(object, key)) {
        SetDefault(values, name.c_str(), value);
      }
    }
  }
  for (const Toleration& toleration : admitted->tolerations) {
    if (Json* const tolerations = ListAt(spec, "tolerations")) {
      tolerations->push_back(EncodeToleration(toleration));
    }
  }
}

// That the pod uses what an autoscaler has found for its gang, and takes nothing besides.
void AddConsumption(const TrainingJob& job, Json* metadata) {
  const std::optional<CapacityAsk>& ask = job.status.provisioning;
  Json* const annotations = ObjectAt(metadata, "annotations");
  if (annotations == nullptr || !ask.has_value() || !ask->open.has_value() ||
      !ask->open->has_capacity) {
    return;
  }
  (*annotations)[kConsumesRequest] = CapacityRequestName(job.metadata, ask->count);
  (*annotations)[kConsumesClass] = NameOf(kProvisioningClassNames, ask->open->ask_class);
}

Json PodMetadataOf(const Parts& parts, const std::string& trainer_name) {
  const Json& template_metadata = ObjectOr(*parts.role.pod.raw, "metadata");
  Json metadata = {{"name", parts.pod.name},
                   {"namespace", parts.pod.namespace_name},
                   {"labels", ObjectOr(template_metadata, "labels")},
                   {"annotations", ObjectOr(template_metadata, "annotations")},
                   {"ownerReferences", Json::array({OwnerReference(parts.job)})}};
  for (const auto& [name, value] : parts.pod.labels) {
    metadata["labels"][name] = value;
  }
  for (const auto& [name, value] : parts.pod.annotations) {
    metadata["annotations"][name] = value;
  }
  SetDefault(&metadata["annotations"], kDefaultContainerAnnotation, trainer_name);
  AddConsumption(parts.job, &metadata);
  return metadata;
}

Json ManifestSpecOf(const Parts& parts) {
  Json spec = CopyWithRoom(ObjectOr(*parts.role.pod.raw, "spec"), kSpecKeysMax);
  if (const Json* const written = TrainerOf(&spec)) {
    // A copy: adding to the spec moves what is in it.
    Json trainer = CopyWithRoom(*written, kTrainerKeysMax);
    FillTrainer(parts, &trainer);
    AddKey(parts, &trainer, &spec);
    AddInstaller(parts, &trainer, &spec);
    AddWorkVolume(parts, &trainer, &spec);
    AddSharedMemory(parts, &trainer, &spec);
    *TrainerOf(&spec) = std::move(trainer);
  }
  SecureContainers(parts.settings, &spec);
  AddPullSecrets(parts, &spec);
  TieToPlace(parts, &spec);
  spec["hostname"] = parts.pod.spec.hostname;
  spec["subdomain"] = parts.pod.spec.subdomain;
  spec["restartPolicy"] = "Never";
  spec["terminationGracePeriodSeconds"] = parts.pod.spec.termination_grace.count();
  if (const Json* const network = FindField(spec, "hostNetwork");
      network != nullptr && *network == true) {
    // With the node's own resolver pods would not find each other.
    SetDefault(&spec, "dnsPolicy", "ClusterFirstWithHostNet");
  }
  SetDefault(&spec, "automountServiceAccountToken", false);
  SetDefault(&spec, "enableServiceLinks", false);
  if (!parts.pod.spec.pod_group.empty()) {
    GiveGroupsPriority(parts.job, &spec);
  } else if (!parts.job.spec.scheduling.priority_class_name.empty()) {
    SetDefault(&spec, "priorityClassName", parts.job.spec.scheduling.priority_class_name);
  }
  return spec;
}

}  // namespace

PodSettings SettingsForImages(const ImageSettings& images) {
  PodSettings settings;
  settings.addressing = DnsAddressing{images.cluster_domain};
  settings.job_directory = "/lockstep/work";
  settings.data_directory = images.data_directory;
  settings.job_key_file = "/lockstep/key/key";
  settings.termination_message_file = "/dev/termination-log";  // Kubernetes' own default
  settings.runtime_image = images.runtime_image;
  settings.runtime_image_pull_policy = images.runtime_image_pull_policy;
  settings.runtime_image_pull_secrets = images.runtime_image_pull_secrets;
  settings.pod_security = images.pod_security;
  settings.install_directory = "/lockstep/bin";
  return settings;
}

Json PodManifest(const TrainingJob& job, const kube::Pod& pod, const PodSettings& settings) {
  const auto identity = ParsePodLabels(pod.labels);
  const RoleSpec* const role = identity.has_value() ? job.FindRole(identity->task.role) : nullptr;
  LOCKSTEP_CHECK(role != nullptr, "pod " + pod.name + " has no role in job " + job.metadata.name);
  const Parts parts{job, *role, pod, settings};
  Json spec = ManifestSpecOf(parts);
  const Json* const trainer = TrainerOf(&spec);
  const Json* const name = trainer == nullptr ? nullptr : FindField(*trainer, "name");
  const std::string trainer_name = name == nullptr || !name->is_string()
                                       ? std::string(kTrainerContainer)
                                       : name->get<std::string>();
  Json metadata = PodMetadataOf(parts, trainer_name);
  AddAdmission(parts, &metadata, &spec);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

}  // namespace lockstep::control
