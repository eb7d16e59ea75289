#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/launch_variables.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/sshd_checks.h"
#include "operator/convert/torch_processes.h"

namespace lockstep::control {
namespace {

// What the launcher's pod held beside its command went with that pod.
void NoteLauncherPod(const ConvertedPod& launcher, ForeignObject* replica, Conversion* conversion) {
  conversion->notes.push_back(
      {launcher.container_path,
       "the launcher has no pod any more: its program runs in every worker, with the worker's "
       "image, variables, volumes and resources"});
  const auto note_all = [&](const Json& fields,
                            const std::string& path,
                            const std::set<std::string, std::less<>>& told) {
    for (const auto& [key, value] : fields.items()) {
      if (!value.is_null() && !told.contains(key)) {
        conversion->notes.push_back(
            {path + "." + key,
             "not kept: the launcher has no pod any more; where the workers need it, their "
             "template has to say it"});
      }
    }
  };
  note_all(launcher.metadata, replica->PathOf("template.metadata"), {});
  note_all(launcher.spec, replica->PathOf("template.spec"), {"containers", "volumes"});
  note_all(launcher.spec.at("containers").at(0),
           launcher.container_path,
           {"name",
            "image",
            "imagePullPolicy",
            "command",
            "args",
            "env",
            "envFrom",
            "volumeMounts",
            "resources",
            "workingDir"});
  if (replica->TakeCount("replicas").value_or(1) != 1) {
    replica->Note("replicas", "not kept: the launcher has no pod any more");
  }
}

// What the worker's pod started, and what was to become of it, the launcher says now.
void NoteWorkersOwn(const ConvertedPod& pod,
                    const Json& launcher_head,
                    const Json& worker_head,
                    ForeignObject* worker,
                    Conversion* conversion) {
  for (const char* const key : {"command", "args"}) {
    if (!pod.spec.at("containers").at(0).value(key, Json()).is_null()) {
      conversion->notes.push_back({pod.container_path + "." + key,
                                   "not kept: the workers run the launcher's program themselves"});
    }
  }
  const Json& of_launcher = launcher_head.at("restartPolicy");
  if (worker->Take("restartPolicy") != nullptr && worker_head.at("restartPolicy") != of_launcher) {
    worker->Note("restartPolicy",
                 "not kept: the program's end was the launcher's, whose restartPolicy, " +
                     of_launcher.get<std::string>() + ", is the role's");
  }
}

// mpirun starts its program where it was itself started, unless it is told of another place.
void SetWorkingDirectory(const LaunchCommand& command,
                         const ConvertedPod& launcher,
                         ConvertedPod* pod,
                         Conversion* conversion) {
  const Json of_launcher = launcher.spec.at("containers").at(0).value("workingDir", Json());
  const Json of_worker = pod->container().value("workingDir", Json());
  const Json wanted =
      command.working_directory.empty() ? of_launcher : Json(command.working_directory);
  if (wanted.is_null()) {
    return;
  }
  if (!of_worker.is_null() && of_worker != wanted) {
    conversion->notes.push_back({pod->container_path + ".workingDir",
                                 "not kept: the launcher started the program elsewhere"});
  }
  pod->container()["workingDir"] = wanted;
  pod->origins.push_back(
      {std::string(kContainerInRole) + ".workingDir",
       command.working_directory.empty() ? launcher.container_path + ".workingDir" : command.path});
}

// mpirun starts a launcher of PyTorch's, or the command is one: that says how many processes a pod
// has, and mpirun how many of the launcher there are.
void SetTorchProcessesOfWorker(const LaunchCommand& command,
                               const MpiSlots& slots,
                               ConvertedPod* pod,
                               Json* worker,
                               Conversion* conversion) {
  // Nothing but its command tells torchrun of more than one.
  const std::string unless_told = command.processes_per_pod.empty() ? "1" : "";
  SetTorchProcesses(command, unless_told, command.path, pod, worker, conversion);
  const int64_t pods = worker->at("replicas").get<int64_t>();
  const int64_t per_pod = RanksOf(*worker, *pod) / std::max<int64_t>(pods, 1);
  if (const int64_t count = slots.count.value_or(1); count != 1 && count != per_pod) {
    conversion->notes.push_back({slots.field,
                                 "not kept: " + std::string(NameOf(command.launcher)) +
                                     " says how many processes a worker has"});
  }
}

// As many as the launcher's command starts in each worker, else as the worker has slots. `spec` is
// the job's.
void SetWorkerProcesses(const LaunchCommand& command,
                        ForeignObject* spec,
                        ConvertedPod* pod,
                        Json* worker) {
  Conversion* const conversion = spec->conversion();
  const MpiSlots slots{spec->TakeCount("slotsPerWorker"), spec->PathOf("slotsPerWorker")};
  const int64_t pods = worker->at("replicas").get<int64_t>();
  const bool is_nested = command.outer != Launcher::kNone;
  if (is_nested || (IsTorchLauncher(command.launcher) && !command.processes_per_pod.empty())) {
    SetTorchProcessesOfWorker(command, slots, pod, worker, conversion);
  } else {
    SetMpiProcesses(command, &slots, pod, worker, conversion);
  }
  if (is_nested) {
    NoteOuterCount(command, pods, slots.count.value_or(1), conversion);
  }
  NoteMachineCount(
      command, *pod, pods, conversion, is_nested ? kInEachPod : "in the launcher's pod alone");
  NoteMpiLaunch(command,
                RanksOf(*worker, *pod),
                RanksOf(*worker, *pod) / std::max<int64_t>(pods, 1),
                true,
                conversion);
}

// Whether ranks had all variables of the launcher's pod. Source: Hydra's -genvall, its default, of
// MPICH and Intel MPI; gloo_run.py and mpi_run.py of Horovod. OpenMPI hands on what -x says.
bool GivesAllVariables(const LaunchCommand& command, const std::string& implementation) {
  const Launcher first = command.outer == Launcher::kNone ? command.launcher : command.outer;
  const bool is_hydra = implementation == "MPICH" || implementation == "Intel";
  const bool is_told = !command.handed_on.empty() ||
                       std::find(command.dropped.begin(), command.dropped.end(), "-genvnone") !=
                           command.dropped.end();
  return first == Launcher::kHorovodrun || (first == Launcher::kMpirun && is_hydra && !is_told);
}

Json Convert(ForeignObject* spec, const ConversionOptions& options, const char* restarts_unsaid) {
  Conversion* const conversion = spec->conversion();
  const Json* const joins = spec->Take("runLauncherAsWorker");
  const std::string implementation = spec->TakeText("mpiImplementation").value_or("");
  for (const char* const key :
       {"sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation", "mainContainer"}) {
    spec->Drop(key, "not kept: nothing is started over ssh");
  }
  ForeignObject replicas = spec->TakeObject("mpiReplicaSpecs");
  ForeignObject launcher_spec = replicas.TakeObject("Launcher");
  ForeignObject worker_spec = replicas.TakeObject("Worker");
  replicas.Finish();
  if (!launcher_spec || !worker_spec) {
    for (const char* const key : {"runPolicy", "slotsPerWorker"}) {
      spec->Take(key);
    }
    const std::string found = launcher_spec ? "no Worker" : worker_spec ? "no Launcher" : "neither";
    spec->Fail("mpiReplicaSpecs",
               found + " found, expected a Launcher, which has the command, and a Worker" +
                   (launcher_spec && joins != nullptr
                        ? "; of a launcher that is the only worker (runLauncherAsWorker) write one "
                          "with the launcher's template and replicas: 0"
                        : ""));
    return Json::object();
  }
  const Json launcher_head = RoleHead("launcher", "OnFailure", &launcher_spec);
  ConvertedPod launcher =
      ConvertPod(&launcher_spec, {"mpi-launcher", "launcher"}, OtherContainers::kGone);
  launcher_spec.Finish();
  LaunchCommand command =
      ReadProgram(&launcher, TorchrunIsTold::kByItsManifest, options, conversion);
  if (GivesAllVariables(command, implementation)) {
    HandOnAll(launcher, &command, conversion);
  }
  NoteLauncherPod(launcher, &launcher_spec, conversion);

  Json worker = RoleHead("worker", "Never", &worker_spec);
  ConvertedPod pod = ConvertPod(&worker_spec, {"mpi-worker", "worker"});
  worker_spec.Finish();
  if (joins != nullptr && !joins->is_boolean()) {
    spec->Fail("runLauncherAsWorker", DescribeJson(*joins) + " found, expected true or false");
  } else if (joins != nullptr && *joins == true) {
    const int64_t replicas_with_it = worker.at("replicas").get<int64_t>() + 1;
    worker["replicas"] = replicas_with_it;
    spec->Note("runLauncherAsWorker",
               "kept as one more worker, which the launcher was: the job has " +
                   std::to_string(replicas_with_it));
  }
  NoteWorkersOwn(pod, launcher_head, worker, &worker_spec, conversion);
  DropChecksOfSshd(&pod, conversion);
  worker["restartPolicy"] = launcher_head.at("restartPolicy");
  SetWorkerProcesses(command, spec, &pod, &worker);
  Json& container = pod.container();
  if (!HasImage(pod)) {
    container["image"] = launcher.container()["image"];
    pod.origins.push_back(
        {std::string(kContainerInRole) + ".image", launcher.container_path + ".image"});
  }
  SetWorkingDirectory(command, launcher, &pod, conversion);
  SetProgram(command, launcher, &pod, conversion);
  const std::string of_container = kContainerInRole;
  pod.origins.push_back({of_container + ".command", launcher.container_path + ".command"});
  pod.origins.push_back({"restartPolicy", launcher_spec.PathOf("restartPolicy")});
  conversion->origins.push_back({"spec.roles", replicas.PathOf("Worker") + ".replicas"});
  NoteOriginsOfRole(0, replicas.PathOf("Worker"), pod, conversion);
  worker["template"] = pod.ToTemplate();
  Json job_spec = {
      {"strategy", IsTorchLauncher(command.launcher) ? "MultiWorkerMirrored" : "Horovod"},
      {"successPolicy", "AllWorkers"},
      {"roles", Json::array({std::move(worker)})}};
  ConvertRunPolicy(spec, std::nullopt, &job_spec, restarts_unsaid);
  return job_spec;
}

}  // namespace

Json ConvertMpiJob(ForeignObject* spec, const ConversionOptions& options) {
  return Convert(spec, options, kNoLimit);
}

// Its operator hands the field on to a Job of batch/v1 around the launcher, whose default that is.
Json ConvertMpiJobV2(ForeignObject* spec, const ConversionOptions& options) {
  return Convert(spec, options, "6 retries of the launcher");
}

}  // namespace lockstep::control
