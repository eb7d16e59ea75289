#include <optional>
#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {
namespace {

// Ranks that the launcher would have started, held against those that the workers have.
void CheckCount(const LaunchCommand& command,
                int64_t ranks,
                const std::string& path,
                Conversion* conversion) {
  if (command.process_count.has_value() && *command.process_count != ranks) {
    conversion->notes.push_back({path + ".command",
                                 std::to_string(*command.process_count) +
                                     " ranks were asked for; the job has " + std::to_string(ranks) +
                                     ", as many as its workers have slots"});
  }
}

// What the launcher's pod held beside its command went with that pod.
void NoteLauncherPod(const ConvertedPod& launcher, Conversion* conversion) {
  conversion->notes.push_back(
      {launcher.container_path,
       "the launcher has no pod any more: its program runs in every worker, with the worker's "
       "image, variables, volumes and resources"});
}

void NoteMpi(const LaunchCommand& command, const std::string& path, Conversion* conversion) {
  if (command.launcher == Launcher::kMpirun) {
    conversion->notes.push_back(
        {path + ".command",
         "a program that calls MPI itself finds none: it needs mpirun. One that uses Horovod runs, "
         "with Gloo"});
  }
}

}  // namespace

Json ConvertMpiJob(ForeignObject* spec, const ConversionOptions& options) {
  Conversion* const conversion = spec->conversion();
  const int64_t slots = spec->TakeCount("slotsPerWorker").value_or(1);
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
  const LaunchCommand command = ConvertProgram(&launcher, options, conversion);
  NoteMpi(command, launcher.container_path, conversion);
  NoteLauncherPod(launcher, conversion);

  Json worker = RoleHead("worker", "Never", &worker_spec);
  ConvertedPod pod = ConvertPod(&worker_spec, {"mpi-worker", "worker"});
  worker_spec.Finish();
  if (joins != nullptr && *joins == true) {
    worker["replicas"] = worker.at("replicas").get<int64_t>() + 1;
  }
  // The program's end was the launcher's.
  worker["restartPolicy"] = launcher_head.at("restartPolicy");
  worker["processes"] = slots;
  CheckCount(
      command, slots * worker.at("replicas").get<int64_t>(), launcher.container_path, conversion);
  Json& container = pod.container();
  if (!container.contains("image")) {
    container["image"] = launcher.container().value("image", "");
    pod.origins.push_back(
        {std::string(kContainerInRole) + ".image", launcher.container_path + ".image"});
  }
  SetProgram(command, &container);
  const std::string of_container = kContainerInRole;
  pod.origins.push_back({of_container + ".command", launcher.container_path + ".command"});
  pod.origins.push_back({"restartPolicy", launcher_spec.PathOf("restartPolicy")});
  pod.origins.push_back({"processes", spec->PathOf("slotsPerWorker")});
  NoteOriginsOfRole(0, replicas.PathOf("Worker"), pod, conversion);
  worker["template"] = pod.ToTemplate();
  Json job_spec = {{"strategy", "Horovod"},
                   {"successPolicy", "AllWorkers"},
                   {"roles", Json::array({std::move(worker)})}};
  ConvertRunPolicy(spec, std::nullopt, &job_spec);
  return job_spec;
}

}  // namespace lockstep::control
