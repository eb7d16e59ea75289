#include <set>
#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/launch_variables.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/sshd_checks.h"

namespace lockstep::control {
namespace {

// What the launcher's pod held beside its command went with that pod.
void NoteLauncherPod(const ConvertedPod& launcher, ForeignObject* replica, Conversion* conversion) {
  conversion->notes.push_back(
      {launcher.container_path,
       "not kept: there is no launcher pod; every worker runs the launcher's program, with the "
       "worker's image, variables, volumes and resources"});
  const auto note_all = [&](const Json& fields,
                            const std::string& path,
                            const std::set<std::string, std::less<>>& told) {
    for (const auto& [key, value] : fields.items()) {
      if (!value.is_null() && !told.contains(key)) {
        conversion->notes.push_back(
            {path + "." + key,
             "not kept: there is no launcher pod; if the workers need this field, set it in their "
             "template"});
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
    replica->Note("replicas", "not kept: there is no launcher pod");
  }
}

// What the worker's pod started, and what was to become of it, the launcher says now.
void NoteWorkersOwn(const ConvertedPod& pod,
                    const Json& launcher_head,
                    const Json& worker_head,
                    ForeignObject* worker,
                    Conversion* conversion) {
  for (const char* const key : {"command", "args"}) {
    if (!pod.OfContainer(key).is_null()) {
      conversion->notes.push_back({pod.container_path + "." + key,
                                   "not kept: the workers run the launcher's program themselves"});
    }
  }
  const Json& of_launcher = launcher_head.at("restartPolicy");
  if (worker->Take("restartPolicy") != nullptr && worker_head.at("restartPolicy") != of_launcher) {
    worker->Note("restartPolicy",
                 "not kept: the role takes the launcher's restartPolicy, " +
                     of_launcher.get<std::string>() + ", because it runs the launcher's program");
  }
}

// mpirun starts its program where it was itself started, unless it is told of another place.
void SetWorkingDirectory(const LaunchCommand& command,
                         const ConvertedPod& launcher,
                         ConvertedPod* pod,
                         Conversion* conversion) {
  const Json of_launcher = launcher.OfContainer("workingDir");
  const Json of_worker = pod->OfContainer("workingDir");
  const Json wanted =
      command.working_directory.empty() ? of_launcher : Json(command.working_directory);
  if (wanted.is_null()) {
    return;
  }
  if (!of_worker.is_null() && of_worker != wanted) {
    conversion->notes.push_back({pod->container_path + ".workingDir",
                                 "not kept: the launcher started the program in another folder"});
  }
  pod->container()["workingDir"] = wanted;
  pod->origins.push_back(
      {std::string(kContainerInRole) + ".workingDir",
       command.working_directory.empty() ? launcher.container_path + ".workingDir" : command.path});
}

// Of the workers, or of the launcher where it is alone. Without `has_slots` mpirun knows of its own
// pod alone.
void SetProcesses(bool has_slots, ForeignObject* spec, ConvertedReplica* replica) {
  const MpiSlots slots{spec->TakeCount("slotsPerWorker"), spec->PathOf("slotsPerWorker")};
  SetMpiProcesses(has_slots ? &slots : nullptr, replica, spec->conversion());
  NoteMpiLaunches({replica, 1}, has_slots, spec->conversion());
}

// Refuses launchers other than mpirun and horovodrun: their commands do not show what runs on which
// rank.
void RefuseOtherLaunchers(LaunchCommand* command, Conversion* conversion) {
  if (!command->problem.empty() || command->is_of_mpi() || command->program.empty()) {
    return;
  }
  command->problem =
      "\"" + command->program[0] +
      "\" found, expected mpirun or horovodrun with the program: every rank runs "
      "this program, but a script may do more than that. For torchrun use a PyTorchJob";
  conversion->errors.push_back(
      Error(ErrorCode::kInvalidArgument, command->problem).WithField(command->path));
}

// Whether ranks had all variables of the launcher's pod. Source: Hydra's -genvall, its default, of
// MPICH and Intel MPI; gloo_run.py and mpi_run.py of Horovod. OpenMPI hands on what -x says.
bool GivesAllVariables(const LaunchCommand& command, const std::string& implementation) {
  const bool is_hydra = implementation == "MPICH" || implementation == "Intel";
  const bool names_some = std::ranges::any_of(
      command.variables, [](const auto& one) { return !one.second.has_value(); });
  return command.launcher == "horovodrun" ||
         (command.launcher == "mpirun" && is_hydra && !names_some);
}

// What a version of the kind means.
struct Version {
  const char* restart_policy;  // of a launcher whose manifest says none
  const char* restarts;        // that no backoffLimit allows
  bool has_job = false;        // a Job of batch/v1 is around the launcher's pod
};

// A Job makes another pod in the place of one that failed, as backoffLimit allows.
Json LauncherHead(const std::string& role, const Version& version, ForeignObject* launcher) {
  Json head = RoleHead(role, version.restart_policy, launcher);
  if (version.has_job && head.at("restartPolicy") == "Never") {
    head["restartPolicy"] = "OnFailure";
    launcher->Note(
        "restartPolicy",
        "\"Never\" is converted to \"OnFailure\", because the launcher's Job restarted the "
        "launcher up to its backoffLimit");
  }
  return head;
}

bool JoinsWorkers(ForeignObject* spec) {
  const Json* const joins = spec->Take("runLauncherAsWorker");
  if (joins != nullptr && !joins->is_boolean()) {
    spec->Fail("runLauncherAsWorker", DescribeJson(*joins) + " found, expected true or false");
  }
  return joins != nullptr && *joins == true;
}

// Without workers the launcher's pod is the job.
Json ConvertLauncherAlone(ForeignObject* spec,
                          ForeignObject launcher,
                          const ConversionOptions& options,
                          const Version& version) {
  Conversion* const conversion = spec->conversion();
  ConvertedReplica replica{LauncherHead("worker", version, &launcher),
                           ConvertPod(&launcher, {"mpi-launcher", "launcher"})};
  ConvertProgram(&replica, options, conversion);
  const bool has_slots = JoinsWorkers(spec);
  if (replica.command.is_of_mpi()) {
    SetProcesses(has_slots, spec, &replica);
  } else if (spec->Take("slotsPerWorker"); replica.pod.gpu_count() > 1) {
    replica.role["processes"] = 1;  // which drives them all, as before
  }
  launcher.Finish();
  NoteOriginsOfRole(0, launcher.PathOf("template"), replica.pod, conversion);
  replica.role["template"] = replica.pod.ToTemplate();
  return {{"strategy", replica.command.is_of_mpi() ? "Horovod" : "MultiWorkerMirrored"},
          {"roles", RolesOf({replica})}};
}

Json ConvertWithWorkers(ForeignObject* spec,
                        ForeignObject launcher_spec,
                        ForeignObject worker_spec,
                        const ConversionOptions& options,
                        const Version& version) {
  Conversion* const conversion = spec->conversion();
  const Json launcher_head = LauncherHead("launcher", version, &launcher_spec);
  ConvertedPod launcher =
      ConvertPod(&launcher_spec, {"mpi-launcher", "launcher"}, OtherContainers::kGone);
  launcher_spec.Finish();
  ConvertedReplica replica{{}, {}, ReadProgram(&launcher, options, conversion)};
  LaunchCommand& command = replica.command;
  RefuseOtherLaunchers(&command, conversion);
  if (GivesAllVariables(command, spec->TakeText("mpiImplementation").value_or(""))) {
    HandOnAll(launcher, &command, conversion);
  }
  NoteLauncherPod(launcher, &launcher_spec, conversion);

  Json& worker = replica.role;
  ConvertedPod& pod = replica.pod;
  worker = RoleHead("worker", "Never", &worker_spec);
  pod = ConvertPod(&worker_spec, {"mpi-worker", "worker"});
  worker_spec.Finish();
  if (JoinsWorkers(spec)) {
    const int64_t replicas_with_it = worker.at("replicas").get<int64_t>() + 1;
    worker["replicas"] = replicas_with_it;
    spec->Note("runLauncherAsWorker",
               "kept: one more worker takes the place of the launcher; replicas: " +
                   std::to_string(replicas_with_it));
  }
  NoteWorkersOwn(pod, launcher_head, worker, &worker_spec, conversion);
  DropChecksOfSshd(&pod, conversion);
  worker["restartPolicy"] = launcher_head.at("restartPolicy");
  SetProcesses(true, spec, &replica);
  if (!HasImage(pod)) {
    pod.container()["image"] = launcher.container()["image"];
    pod.origins.push_back(
        {std::string(kContainerInRole) + ".image", launcher.container_path + ".image"});
  }
  SetWorkingDirectory(command, launcher, &pod, conversion);
  SetProgram(command, launcher, &pod, conversion);
  const std::string of_container = kContainerInRole;
  pod.origins.push_back({of_container + ".command", launcher.container_path + ".command"});
  pod.origins.push_back({"restartPolicy", launcher_spec.PathOf("restartPolicy")});
  conversion->origins.push_back({"spec.roles", worker_spec.PathOf("replicas")});
  NoteOriginsOfRole(0, spec->PathOf("mpiReplicaSpecs.Worker"), pod, conversion);
  worker["template"] = pod.ToTemplate();
  return {{"strategy", "Horovod"}, {"roles", RolesOf({replica})}};
}

Json Convert(ForeignObject* spec, const ConversionOptions& options, const Version& version) {
  ForeignObject replicas = spec->TakeObject("mpiReplicaSpecs");
  ForeignObject launcher = replicas.TakeObject("Launcher");
  ForeignObject worker = replicas.TakeObject("Worker");
  replicas.Finish();
  Json job_spec = Json::object();
  if (!launcher) {
    spec->Take("slotsPerWorker");
    spec->Fail("mpiReplicaSpecs", "no Launcher found, expected one with the command");
  } else if (!worker) {
    job_spec = ConvertLauncherAlone(spec, std::move(launcher), options, version);
  } else {
    job_spec = ConvertWithWorkers(spec, std::move(launcher), std::move(worker), options, version);
  }
  for (const char* const key :
       {"sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation", "mainContainer"}) {
    spec->Drop(key, "not kept: Lockstep does not use ssh");
  }
  job_spec["successPolicy"] = "AllWorkers";
  ConvertRunPolicy(spec, std::nullopt, &job_spec, version.restarts);
  return job_spec;
}

}  // namespace

// Source: pkg/apis/kubeflow.org/v1/mpi_defaults.go of kubeflow/training-operator v1.9.
Json ConvertMpiJob(ForeignObject* spec, const ConversionOptions& options) {
  return Convert(spec, options, {"Never", kNoLimit});
}

// v1alpha2 and v2beta1. Source: pkg/apis/kubeflow of kubeflow/mpi-operator v0.2.3 and v0.8.
Json ConvertMpiJobWithJob(ForeignObject* spec, const ConversionOptions& options) {
  return Convert(spec, options, {"OnFailure", "6 retries of the launcher", true});
}

}  // namespace lockstep::control
