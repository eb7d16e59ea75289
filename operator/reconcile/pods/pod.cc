#include "operator/reconcile/pods/pod.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/contract/environment/environment.h"
#include "common/contract/training/training_spec.h"
#include "operator/api/fields/json_edit.h"
#include "operator/api/job/job_topology.h"
#include "operator/api/job/template_parts.h"
#include "operator/api/job/variable_references.h"
#include "operator/api/rules/recovery_rules.h"
#include "operator/reconcile/gang/gang_plan.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// How long a pod whose programs have ended waits for a relaunch, as it is told at its birth.
// Choice: one leader may fail meanwhile; then it ends, as a pod does that waits for
// nobody.
constexpr std::chrono::seconds kHoldTime{60};

// `path` as it stands when absolute, below `base` otherwise; empty when there is no base for it.
std::string Below(const std::string& base, const std::string& path) {
  if (path.empty() || path.front() == '/') {
    return path;
  }
  return base.empty() ? std::string() : base + "/" + path;
}

// Where a command keeps what must outlive its pod; empty where nothing would: in a cluster without
// a volume of the template's own.
std::string CheckpointsOfCommand(const RoleSpec& role, const PodSettings& settings) {
  if (settings.job_directory.empty()) {
    return "";
  }
  const std::string folder = settings.job_directory + "/" + kCommandCheckpoints;
  if (std::holds_alternative<LoopbackAddressing>(settings.addressing)) {
    return folder;
  }
  const Json& spec = PodSpecOf(role.pod);
  const Json* const trainer = FindTrainer(spec);
  return trainer != nullptr && HasMountFor(*trainer, folder) ? folder : "";
}

void FillInSettings(const TrainingJob& job,
                    const RoleSpec& role,
                    const PodSettings& settings,
                    WorkerEnvironment* environment) {
  environment->job_key_file = IsSupervised(job, role) ? settings.job_key_file : "";
  environment->data_directory = settings.data_directory;
  environment->termination_message_file = settings.termination_message_file;
  environment->grace = role.pod.termination_grace;
  environment->rendezvous_timeout =
      std::chrono::ceil<std::chrono::seconds>(job.spec.recovery.rendezvous_timeout);
  environment->silent_after = job.spec.recovery.silent_after;
  environment->launcher = role.launcher;
  environment->gpu_visibility = role.gpu_visibility;
  if (environment->rank.has_value()) {  // others may have nothing to do for as long as they like
    environment->hung_after = job.spec.recovery.hung_after;
  }
  if (HoldsItsEnd(job.spec, role.name)) {
    environment->hold = kHoldTime;
  }
  if (job.spec.training.has_value()) {
    environment->training = DumpJson(EncodeTrainingSpec(*job.spec.training));
    environment->checkpoint_directory = CheckpointDirectory(job, settings);
  } else {
    environment->checkpoint_directory = CheckpointsOfCommand(role, settings);
  }
}

// Which variables of the contract the template may set itself.
bool IsUsersChoice(const std::string& name) {
  return name == env::kHorovodGlooInterface;
}

// Whether the pod's runtime is of this operator's version, and so knows all that it can write: it
// comes out of the operator's own image, and not out of that of an earlier operator, which the gang
// keeps. An image that the template names may hold any version.
bool HasRuntimeOfThisVersion(const TrainingJob& job,
                             const RoleSpec& role,
                             const PodSettings& settings) {
  const std::string& born = job.status.origin.runtime_image;
  const bool is_from_our_image = NeedsInstall(job, role, settings) ||
                                 (job.spec.training.has_value() && role.pod.image.empty());
  return is_from_our_image && !settings.runtime_image.empty() &&
         (born.empty() || born == settings.runtime_image);
}

bool IsWordCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

// Whether the template's container says the name of a variable that is in `full` and not in
// `brief`: in $(NAME), in an exec probe or hook, which do not run under the runtime, in a value of
// its own. A mention that means nothing costs a longer pod.
bool NamesMore(const RoleSpec& role, const EnvironmentMap& full, const EnvironmentMap& brief) {
  const Json& spec = PodSpecOf(role.pod);
  const Json* const trainer = FindTrainer(spec);
  if (trainer == nullptr) {
    return false;
  }
  const std::string text = DumpJson(*trainer);
  for (auto at = text.begin(); at != text.end();) {
    at = std::find_if(at, text.end(), IsWordCharacter);
    const auto end = std::find_if_not(at, text.end(), IsWordCharacter);
    const std::string word(at, end);
    if (full.count(word) > 0 && brief.count(word) == 0) {
      return true;
    }
    at = end;
  }
  return false;
}

// What the pod is told: all of the contract, or what the runtime makes all of it from.
Result<EnvironmentMap> VariablesOf(const TrainingJob& job,
                                   const RoleSpec& role,
                                   const WorkerEnvironment& environment,
                                   const PodSettings& settings) {
  LOCKSTEP_ASSIGN_OR_RETURN(EnvironmentMap full, RenderEnvironment(environment));
  const bool is_found_by_dns = std::holds_alternative<DnsAddressing>(settings.addressing);
  if (!is_found_by_dns || !HasRuntimeOfThisVersion(job, role, settings)) {
    return full;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      EnvironmentMap brief,
      RenderBriefEnvironment(TopologyOf(job, settings.addressing), environment));
  return NamesMore(role, full, brief) ? std::move(full) : std::move(brief);
}

// The contract's variables win, but for those that are the user's choice.
void FillInContract(const RoleSpec& role, EnvironmentMap variables, EnvironmentMap* environment) {
  for (auto& [name, value] : variables) {
    if (!IsUsersChoice(name) || role.pod.env.count(name) == 0) {
      (*environment)[name] = std::move(value);
    }
  }
}

// The template's words, with $(NAME) as a kubelet would replace it. A value may refer to variables
// before it, of which the contract's come first; the command to all. Errors: as ExpandReferences,
// with the variable's or the word's place.
Status ExpandTemplate(const RoleSpec& role, kube::ContainerSpec* container) {
  EnvironmentMap known = container->env;
  for (const auto& [name, value] : role.pod.env) {
    known.erase(name);
  }
  for (const EnvironmentSource& source : role.pod.env_sources) {
    known.erase(source.variable);
  }
  const Json& spec = PodSpecOf(role.pod);
  const Json* const trainer = FindTrainer(spec);
  const Json* const written = trainer == nullptr ? nullptr : FindField(*trainer, "env");
  for (const Json& variable : written == nullptr ? Json::array() : *written) {
    const std::string name = variable.at("name").get<std::string>();
    const auto found = container->env.find(name);
    if (found == container->env.end()) {
      continue;  // an optional one that is not there
    }
    if (FindField(variable, "valueFrom") == nullptr) {
      Result<std::string> expanded = ExpandReferences(found->second, known);
      if (!expanded.ok()) {
        return std::move(expanded).error().WithField("variable " + name);
      }
      found->second = std::move(expanded).value();
    }
    known[name] = found->second;
  }
  const std::size_t word_count = role.pod.command.size() + role.pod.args.size();
  const std::size_t first = container->command.size() - word_count;
  for (std::size_t i = first; i < container->command.size(); ++i) {
    Result<std::string> expanded = ExpandReferences(container->command[i], known);
    if (!expanded.ok()) {
      return std::move(expanded).error().WithField("command[" + std::to_string(i - first) + "]");
    }
    container->command[i] = std::move(expanded).value();
  }
  return OkStatus();
}

std::vector<std::string> CommandOf(const TrainingJob& job,
                                   const RoleSpec& role,
                                   const PodSettings& settings) {
  const bool may_restart =
      role.restart_policy != RestartPolicy::kNever && job.spec.run_policy.backoff_limit > 0;
  if (job.spec.training.has_value()) {
    std::vector<std::string> command = {settings.runtime_path, "train"};
    if (role.processes > 1 && !may_restart) {
      command.emplace_back("--no-restarts");
    }
    return command;
  }
  std::vector<std::string> command;
  if (IsSupervised(job, role)) {
    const std::string runtime = NeedsInstall(job, role, settings)
                                    ? settings.install_directory + "/lockstep-runtime"
                                    : settings.runtime_path;
    command = {runtime, "run"};
    // A runtime that does not know them restarts nothing, keeps no interpreter, and starts
    // Horovod's programs at once.
    const bool knows_options =
        settings.install_directory.empty() || HasRuntimeOfThisVersion(job, role, settings);
    if (!may_restart && knows_options) {
      command.emplace_back("--no-restarts");
    }
    if (job.spec.strategy == Strategy::kHorovod && knows_options) {
      command.emplace_back("--together");
    }
    for (const std::string& module : role.warm) {
      if (knows_options) {
        command.insert(command.end(), {"--warm", module});
      }
    }
    command.emplace_back("--");
  }
  command.insert(command.end(), role.pod.command.begin(), role.pod.command.end());
  command.insert(command.end(), role.pod.args.begin(), role.pod.args.end());
  return command;
}

// Fields of a pod that variables may refer to and that are known before a kubelet has it.
struct PodField {
  std::string_view path;
  const std::string& (*value)(const kube::Pod& pod);
};

constexpr std::array<PodField, 3> kPodFields = {{
    {"metadata.name", [](const kube::Pod& pod) -> const std::string& { return pod.name; }},
    {"metadata.namespace",
     [](const kube::Pod& pod) -> const std::string& { return pod.namespace_name; }},
    {"spec.nodeName",
     [](const kube::Pod& pod) -> const std::string& { return pod.spec.node_name; }},
}};

const PodField* FindPodField(std::string_view path) {
  const auto found = std::find_if(kPodFields.begin(), kPodFields.end(), [&](const PodField& field) {
    return field.path == path;
  });
  return found == kPodFields.end() ? nullptr : &*found;
}

void FillInFields(const RoleSpec& role, kube::Pod* pod) {
  for (const EnvironmentSource& source : role.pod.env_sources) {
    if (const PodField* const field = FindPodField(source.field)) {
      pod->spec.container.env[source.variable] = field->value(*pod);
    }
  }
}

kube::PodSpec KubeSpecOf(const TrainingJob& job,
                         const RoleSpec& role,
                         const PodRequest& request,
                         const PodSettings& settings) {
  kube::PodSpec spec;
  spec.node_name = request.node;
  spec.hostname = HostName(job.metadata.name, request.task);
  spec.subdomain = job.metadata.name;
  spec.node_selector = role.pod.node_selector;
  spec.pod_group = request.pod_group;
  spec.termination_grace = role.pod.termination_grace;
  spec.container.name = kTrainerContainer;
  spec.container.image = role.pod.image;
  spec.container.command = CommandOf(job, role, settings);
  spec.container.working_dir = role.pod.working_dir;
  spec.container.requests = RequestsOf(role);
  spec.container.limits = role.pod.limits;
  spec.container.limits.gpu_count = role.gpus;  // they stand in a field of the role
  if (spec.container.limits.memory_bytes == 0) {
    spec.container.limits.memory_bytes = role.pod.pod_limits.memory_bytes;
  }
  spec.container.env = role.pod.env;
  if (role.gpus == 0 && !AsksForDevice(PodSpecOf(role.pod))) {
    spec.container.env.try_emplace(kNvidiaVisibleDevices, "none");
  }
  return spec;
}

}  // namespace

std::string CheckpointDirectory(const TrainingJob& job, const PodSettings& settings) {
  return Below(settings.job_directory, job.spec.training->checkpoint.directory);
}

bool IsSupervised(const TrainingJob& job, const RoleSpec& role) {
  return job.spec.training.has_value() || role.supervise;
}

bool NeedsInstall(const TrainingJob& job, const RoleSpec& role, const PodSettings& settings) {
  return !job.spec.training.has_value() && role.supervise && !settings.install_directory.empty();
}

bool IsKnownWithoutCluster(const EnvironmentSource& source) {
  return FindPodField(source.field) != nullptr;
}

Result<kube::Pod> BuildPod(const TrainingJob& job,
                           const PodRequest& request,
                           const PodSettings& settings) {
  const JobTopology topology = TopologyOf(job, settings.addressing);
  const RoleSpec* const role = job.FindRole(request.task.role);
  LOCKSTEP_CHECK(role != nullptr, "the job has no role for task " + TaskName(request.task));
  LOCKSTEP_ASSIGN_OR_RETURN(
      WorkerEnvironment environment,
      MakeWorkerEnvironment(
          topology,
          {request.task, request.number, request.epoch, job.metadata.uid},
          IsSupervised(job, *role) ? TfConfigForm::kShapeWhenLong : TfConfigForm::kFull));
  FillInSettings(job, *role, settings, &environment);
  environment.control_counter = request.control_counter;
  environment.ps_incarnations = request.ps_incarnations;
  LOCKSTEP_ASSIGN_OR_RETURN(EnvironmentMap variables,
                            VariablesOf(job, *role, environment, settings));

  kube::Pod pod;
  pod.name = PodName(job.metadata.name, request.task, request.number);
  pod.namespace_name = job.metadata.namespace_name;
  pod.labels = EncodePodLabels({job.metadata.name,
                                job.metadata.uid,
                                request.task,
                                FirstRankOf(topology, request.task),
                                request.number});
  pod.owner_uid = job.metadata.uid;
  pod.owner_job = job.metadata.name;
  pod.spec = KubeSpecOf(job, *role, request, settings);
  FillInFields(*role, &pod);
  FillInContract(*role, std::move(variables), &pod.spec.container.env);
  if (settings.expands_references && !job.spec.training.has_value()) {
    LOCKSTEP_RETURN_IF_ERROR(ExpandTemplate(*role, &pod.spec.container));
  }
  return pod;
}

}  // namespace lockstep::control
