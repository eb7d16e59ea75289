#include <optional>
#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/torch_processes.h"

namespace lockstep::control {
namespace {

// What the launcher's pod held beside its command went with that pod.
void NoteLauncherPod(const ConvertedPod& launcher, Conversion* conversion) {
  conversion->notes.push_back(
      {launcher.container_path,
       "the launcher has no pod any more: its program runs in every worker, with the worker's "
       "image, variables, volumes and resources"});
}

// As many as the launcher's command starts in each worker, else as the worker has slots. `spec` is
// the job's.
void SetProcesses(const LaunchCommand& command,
                  const std::string& command_path,
                  ForeignObject* spec,
                  ConvertedPod* pod,
                  Json* worker) {
  const std::optional<int64_t> slots = spec->TakeCount("slotsPerWorker");
  const int64_t in_command = ProcessCountOf(command.processes_per_pod);
  (*worker)["processes"] = in_command > 0 ? in_command : slots.value_or(1);
  pod->origins.push_back(
      {"processes", in_command > 0 ? command_path : spec->PathOf("slotsPerWorker")});
  if (in_command > 0 && slots.has_value() && *slots != in_command) {
    spec->Note("slotsPerWorker",
               "not kept: the launcher's command says " + std::to_string(in_command));
  }
  const int64_t pods = worker->at("replicas").get<int64_t>();
  NoteMpiLaunch(
      command, worker->at("processes").get<int64_t>() * pods, command_path, spec->conversion());
  if (command.machine_count.has_value()) {  // else those of its hostfile, which are all
    NoteMachineCount(command, pods, command_path, spec->conversion());
  }
}

Json Convert(ForeignObject* spec, const ConversionOptions& options, const char* restarts_unsaid) {
  Conversion* const conversion = spec->conversion();
  const Json* const joins = spec->Take("runLauncherAsWorker");
  for (const char* const key :
       {"sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation", "mainContainer"}) {
    spec->Drop(key, "not kept: nothing is started over ssh");
  }
  ForeignObject replicas = spec->TakeObject("mpiReplicaSpecs");
  ForeignObject launcher_spec = replicas.TakeObject("Launcher");
  ForeignObject worker_spec = replicas.TakeObject("Worker");
  replicas.Finish();
  if (!launcher_spec || !worker_spec) {
    spec->Fail("mpiReplicaSpecs", "expected a Launcher, which has the command, and a Worker");
    return Json::object();
  }
  const Json launcher_head = RoleHead("launcher", "OnFailure", &launcher_spec);
  ConvertedPod launcher = ConvertPod(&launcher_spec, {"mpi-launcher", "launcher"});
  launcher_spec.Finish();
  const LaunchCommand command = ReadProgram(&launcher, options, conversion);
  NoteLauncherPod(launcher, conversion);

  Json worker = RoleHead("worker", "Never", &worker_spec);
  ConvertedPod pod = ConvertPod(&worker_spec, {"mpi-worker", "worker"});
  worker_spec.Finish();
  if (joins != nullptr && *joins == true) {
    const int64_t replicas_with_it = worker.at("replicas").get<int64_t>() + 1;
    worker["replicas"] = replicas_with_it;
    spec->Note("runLauncherAsWorker",
               "kept as one more worker, which the launcher was: the job has " +
                   std::to_string(replicas_with_it));
  }
  // The program's end was the launcher's.
  worker["restartPolicy"] = launcher_head.at("restartPolicy");
  SetProcesses(command, launcher.container_path + ".command", spec, &pod, &worker);
  Json& container = pod.container();
  if (!HasImage(pod)) {
    container["image"] = launcher.container()["image"];
    pod.origins.push_back(
        {std::string(kContainerInRole) + ".image", launcher.container_path + ".image"});
  }
  SetProgram(command, launcher, &pod, conversion);
  const std::string of_container = kContainerInRole;
  pod.origins.push_back({of_container + ".command", launcher.container_path + ".command"});
  pod.origins.push_back({"restartPolicy", launcher_spec.PathOf("restartPolicy")});
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
