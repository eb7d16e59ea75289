#include "operator/convert/pod_conversion.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/json/json.h"
#include "operator/api/job/pod_template.h"
#include "operator/convert/kubeflow_names.h"
#include "operator/convert/launch_variables.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

void Note(std::string field, std::string text, Conversion* conversion) {
  conversion->notes.push_back({std::move(field), std::move(text)});
}

void Fail(std::string field, std::string text, Conversion* conversion) {
  conversion->errors.push_back(
      Error(ErrorCode::kInvalidArgument, std::move(text)).WithField(std::move(field)));
}

std::string At(const std::string& list, std::size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

// The list of words `key` of the container. YAML reads 10 and true as other things than text, which
// is what a program is given.
std::vector<std::string> ReadWords(const char* key,
                                   const ConvertedPod& pod,
                                   Conversion* conversion) {
  std::vector<std::string> words;
  const std::string path = pod.container_path + "." + key;
  const Json list = pod.OfContainer(key);
  if (!list.is_null() && !list.is_array()) {
    Fail(path,
         DescribeJson(list) + " found, expected a list of words, such as [python3, train.py]",
         conversion);
    return words;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& word = list[i];
    if (word.is_string()) {
      words.push_back(word.get<std::string>());
    } else if (word.is_number() || word.is_boolean()) {
      words.push_back(TextOf(word));
      Note(At(path, i), "kept as the text \"" + words.back() + "\"", conversion);
    } else {
      Fail(At(path, i), DescribeJson(word) + " found, expected a string", conversion);
    }
  }
  return words;
}

// Kubernetes reads 0.5 and "0.5" alike; a TrainingJob wants fractions in quotes, as the API server
// stores no others.
void QuoteFractions(Json* holder) {
  const auto resources = holder->find("resources");
  if (resources == holder->end() || !resources->is_object()) {
    return;
  }
  for (auto& [kind, amounts] : resources->items()) {
    if (amounts.is_object()) {
      for (auto& [name, amount] : amounts.items()) {
        if (amount.is_number_float()) {
          amount = DumpJson(amount);
        }
      }
    }
  }
}

// The operator's own fields of a pod, and what to say of them.
void DropOwnedFields(ForeignObject* spec) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kOwned = {{
      {"restartPolicy", "not kept: the role has its own restartPolicy"},
      {"hostname", "not kept: the operator gives the pods names, by which they find each other"},
      {"subdomain", "not kept: the operator gives the pods names, by which they find each other"},
      {"nodeName", "not kept: the operator places the whole gang; use nodeSelector"},
  }};
  for (const auto& [key, text] : kOwned) {
    spec->Drop(key, text);
  }
}

// The other containers of a pod start before the trainer and end with it.
void AddSidecars(const Json& containers,
                 std::size_t main,
                 const std::string& path,
                 ConvertedPod* pod,
                 Conversion* conversion) {
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (i == main) {
      continue;
    }
    Json sidecar = containers[i];
    if (sidecar.is_object()) {
      sidecar["restartPolicy"] = "Always";
      QuoteFractions(&sidecar);
    }
    pod->origins.push_back(
        {At("template.spec.initContainers", pod->spec["initContainers"].size()), At(path, i)});
    pod->spec["initContainers"].push_back(std::move(sidecar));
    Note(
        At(path, i),
        "kept as a sidecar (initContainers with restartPolicy: Always): this container starts "
        "before the trainer, is restarted whenever it ends, even with success, and is stopped with "
        "the trainer. Move a container that should end by itself to initContainers, without "
        "restartPolicy",
        conversion);
  }
}

void NoteOthersGone(std::size_t count,
                    std::size_t main,
                    const std::string& path,
                    Conversion* conversion) {
  for (std::size_t i = 0; i < count; ++i) {
    if (i != main) {
      Note(At(path, i), "not kept: there is no launcher pod", conversion);
    }
  }
}

std::size_t MainIndex(const Json& containers, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const Json name = MemberOf(containers[i], "name");
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return i;
    }
  }
  return 0;
}

void NoteLauncher(const LaunchCommand& command, Conversion* conversion) {
  std::string text =
      command.launcher + " is left out: Lockstep starts every rank and tells the rank its number";
  for (const std::string& option : command.dropped) {
    text += (&option == &command.dropped.front() ? "; the launcher's options are left out too: "
                                                 : ", ") +
            option;
  }
  Note(command.path, std::move(text), conversion);
}

int64_t DeviceCountOf(const Json& limit) {
  if (limit.is_number_integer()) {
    return limit.get<int64_t>();
  }
  const Result<Json> parsed = ParseJson(limit.is_string() ? limit.get<std::string>() : "");
  return parsed.ok() && parsed->is_number_integer() ? parsed->get<int64_t>() : 0;
}

}  // namespace

Json ConvertedPod::OfContainer(const char* key) const {
  return MemberOf(spec.at("containers").at(0), key);
}

int64_t ConvertedPod::gpu_count() const {
  return DeviceCountOf(
      MemberOf(MemberOf(OfContainer("resources"), "limits"), std::string(kGpuResource)));
}

std::vector<std::pair<std::string, int64_t>> ConvertedPod::devices() const {
  std::vector<std::pair<std::string, int64_t>> devices;
  const Json limits = MemberOf(OfContainer("resources"), "limits");
  for (const auto& [name, limit] : limits.items()) {
    if (const int64_t count = DeviceCountOf(limit); count > 0 && IsDevice(name)) {
      devices.emplace_back(name, count);
    }
  }
  return devices;
}

std::vector<std::string> ConvertedPod::claims() const {
  std::vector<std::string> claims;
  const Json all = MemberOf(OfContainer("resources"), "claims");
  for (const Json& claim : all.is_array() ? all : Json::array()) {
    if (const Json name = MemberOf(claim, "name"); name.is_string()) {
      claims.push_back(name.get<std::string>());
    }
  }
  return claims;
}

std::string ConvertedPod::ForeignPathOf(const std::string& of_role) const {
  std::vector<FieldOrigin> all = {{kContainerInRole, container_path}};
  all.insert(all.end(), origins.begin(), origins.end());
  return ForeignField(all, of_role);
}

Json ConvertedPod::ToTemplate() const {
  Json result = Json::object();
  if (!metadata.empty()) {
    result["metadata"] = metadata;
  }
  result["spec"] = spec;
  return result;
}

Json VariablesOf(const ConvertedPod& pod) {
  const Json env = pod.OfContainer("env");
  return env.is_array() ? env : Json::array();
}

std::size_t IndexOfVariable(const std::string& name, const Json& variables) {
  const auto found = std::find_if(variables.begin(), variables.end(), [&](const Json& one) {
    return MemberOf(one, "name") == name;
  });
  return static_cast<std::size_t>(found - variables.begin());
}

std::string PathOfVariable(std::size_t index) {
  return At(std::string(kContainerInRole) + ".env", index);
}

void DropVariables(const std::function<bool(const std::string& name)>& is_gone,
                   const std::string& why,
                   ConvertedPod* pod,
                   Conversion* conversion) {
  const Json variables = VariablesOf(*pod);
  Json kept = Json::array();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Json name = MemberOf(variables[i], "name");
    const std::string foreign = pod->ForeignPathOf(PathOfVariable(i));
    if (name.is_string() && is_gone(name.get<std::string>())) {
      Note(foreign, name.get<std::string>() + why, conversion);
    } else {
      pod->origins.push_back({PathOfVariable(kept.size()), foreign});
      kept.push_back(variables[i]);
    }
  }
  if (kept.size() < variables.size()) {
    pod->container()["env"] = std::move(kept);
  }
}

void CleanContainer(ConvertedPod* pod, Conversion* conversion) {
  DropVariables(IsReservedVariable, " is not kept: Lockstep sets it itself", pod, conversion);
  QuoteFractions(&pod->container());
}

void NoteOriginsOfRole(std::size_t index,
                       const std::string& foreign,
                       const ConvertedPod& pod,
                       Conversion* conversion) {
  const std::string role = At("spec.roles", index);
  conversion->origins.push_back({role, foreign});
  conversion->origins.push_back({role + "." + kContainerInRole, pod.container_path});
  for (const FieldOrigin& origin : pod.origins) {
    conversion->origins.push_back({role + "." + origin.of_job, origin.foreign});
  }
}

ConvertedPod ConvertPod(ForeignObject* replica,
                        const std::vector<std::string>& names,
                        OtherContainers others) {
  Conversion* const conversion = replica->conversion();
  ConvertedPod pod;
  pod.spec["containers"] = Json::array({Json::object()});
  ForeignObject pod_template = replica->TakeObject("template");
  ForeignObject metadata = pod_template.TakeObject("metadata");
  metadata.Copy("labels", &pod.metadata);
  metadata.Copy("annotations", &pod.metadata);
  metadata.Take("creationTimestamp");
  metadata.Finish();
  ForeignObject spec = pod_template.TakeObject("spec");
  pod.origins.push_back({"template.spec", pod_template.PathOf("spec")});
  DropOwnedFields(&spec);
  if (const Json* const first = spec.Take("initContainers"); first != nullptr) {
    if (first->is_array()) {
      pod.spec["initContainers"] = *first;
    } else {
      spec.Fail("initContainers", DescribeJson(*first) + " found, expected a list of containers");
    }
  }
  const std::string path = spec.PathOf("containers");
  const Json* const containers = spec.Take("containers");
  pod.container_path = At(path, 0);
  if (containers == nullptr || !containers->is_array() || containers->empty() ||
      !std::all_of(containers->begin(), containers->end(), [](const Json& container) {
        return container.is_object();
      })) {
    Fail(path, "expected a list of containers that has the training container", conversion);
  } else {
    const std::size_t main = MainIndex(*containers, names);
    pod.container_path = At(path, main);
    pod.container() = (*containers)[main];
    CleanContainer(&pod, conversion);
    if (others == OtherContainers::kSidecars) {
      AddSidecars(*containers, main, path, &pod, conversion);
    } else {
      NoteOthersGone(containers->size(), main, path, conversion);
    }
  }
  for (const std::string& key : spec.Rest()) {
    spec.Copy(key, &pod.spec);
  }
  QuoteFractions(&pod.spec);
  SelectByOurLabels(
      pod.metadata, pod.ForeignPathOf("template.spec.affinity"), &pod.spec, conversion);
  pod_template.Finish();
  return pod;
}

// That runtime shows a container all GPUs of the node unless its variables say otherwise, and where
// no device is asked for the operator says none.
void NoteHiddenGpus(const ConvertedPod& pod, Conversion* conversion) {
  const Json runtime = pod.spec.value("runtimeClassName", Json());
  if (runtime.is_string() && runtime.get<std::string>().find("nvidia") != std::string::npos &&
      pod.devices().empty() && pod.claims().empty()) {
    Note(pod.container_path + ".resources",
         "the pod requests no GPU, so it sees none, even with runtimeClassName " +
             runtime.get<std::string>() + ": Lockstep sets NVIDIA_VISIBLE_DEVICES=none. Request " +
             std::string(kGpuResource) + " in limits",
         conversion);
  }
}

// Another scheduler than the cluster's own was asked for the sake of the gang, or binds each pod to
// the node that Lockstep has chosen.
void SettleScheduler(ConvertedPod* pod, Conversion* conversion) {
  constexpr std::array<std::string_view, 4> kOfGangs = {
      "volcano", "kai-scheduler", "scheduler-plugins-scheduler", "yunikorn"};
  const Json name = pod->spec.value("schedulerName", Json());
  if (!name.is_string() || name == "default-scheduler") {
    return;
  }
  const bool is_of_gangs = std::find(kOfGangs.begin(), kOfGangs.end(), name) != kOfGangs.end();
  Note(pod->ForeignPathOf("template.spec.schedulerName"),
       is_of_gangs
           ? name.get<std::string>() +
                 " is not kept: Lockstep itself places all pods of the gang or none; to share the "
                 "cluster, set scheduling.queue"
           : "kept: " + name.get<std::string>() +
                 " binds each pod to the node that Lockstep has chosen",
       conversion);
  if (is_of_gangs) {
    pod->spec.erase("schedulerName");
  }
}

void SetProgram(const LaunchCommand& command,
                const ConvertedPod& launcher,
                ConvertedPod* pod,
                Conversion* conversion) {
  SetLaunched(command, launcher, pod, conversion);
  if (!command.working_directory.empty()) {
    pod->container()["workingDir"] = command.working_directory;
    pod->origins.push_back({std::string(kContainerInRole) + ".workingDir", command.path});
  }
  SettleScheduler(pod, conversion);
  NoteHiddenGpus(*pod, conversion);
}

bool HasImage(const ConvertedPod& pod) {
  return !pod.OfContainer("image").is_null();
}

// The words that the container starts, options filling in; an image that is missing, too.
std::vector<std::string> ReadCommand(ConvertedPod* pod,
                                     const ConversionOptions& options,
                                     Conversion* conversion) {
  Json& container = pod->container();
  const std::string& path = pod->container_path;
  if (!HasImage(*pod)) {
    if (options.image.empty()) {
      Fail(path + ".image", "missing, expected an image; set it with --image", conversion);
    }
    container["image"] = options.image;
  } else if (!container["image"].is_string()) {
    Fail(path + ".image",
         DescribeJson(container["image"]) + " found, expected a string",
         conversion);
  }
  const std::size_t errors_before = conversion->errors.size();
  std::vector<std::string> words = ReadWords("command", *pod, conversion);
  const std::vector<std::string> args = ReadWords("args", *pod, conversion);
  if (words.empty()) {
    words = options.command;
  }
  if (words.empty() && conversion->errors.size() == errors_before) {
    Fail(path + ".command",
         "missing, and lockstep does not know the image's own command; set the command with "
         "--command",
         conversion);
  }
  words.insert(words.end(), args.begin(), args.end());
  return words;
}

LaunchCommand ReadProgram(ConvertedPod* pod,
                          const ConversionOptions& options,
                          Conversion* conversion) {
  LaunchCommand command =
      ReadLaunchCommand(ReadCommand(pod, options, conversion), WrittenVariables(*pod));
  command.path = pod->container_path + ".command";
  if (!command.problem.empty()) {
    Fail(command.path, command.problem, conversion);
    LaunchCommand unread;  // whose numbers mean nothing
    unread.path = command.path;
    unread.problem = command.problem;
    return unread;
  }
  if (command.is_of_mpi()) {
    NoteLauncher(command, conversion);
  }
  return command;
}

void ConvertProgram(ConvertedReplica* replica,
                    const ConversionOptions& options,
                    Conversion* conversion) {
  replica->command = ReadProgram(&replica->pod, options, conversion);
  SetProgram(replica->command, replica->pod, &replica->pod, conversion);
}

}  // namespace lockstep::control
