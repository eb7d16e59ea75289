#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/torch_processes.h"

namespace lockstep::control {
namespace {

constexpr const char* kContainer = "tensorflow";
constexpr const char* kPort = "tfjob-port";
constexpr int kOurPort = 2222;

// TF_CONFIG names this port; theirs may have named another.
void NoteTfPort(ConvertedPod* pod, Conversion* conversion) {
  const Json ports = pod->container().value("ports", Json::array());
  for (std::size_t i = 0; ports.is_array() && i < ports.size(); ++i) {
    const bool is_other = ports[i].is_object() && ports[i].value("name", Json()) == kPort &&
                          ports[i].value("containerPort", Json()) != kOurPort;
    if (is_other) {
      conversion->notes.push_back(
          {pod->container_path + ".ports[" + std::to_string(i) + "]",
           "TF_CONFIG names port 2222, whatever is written here; the server has to listen there"});
    }
  }
}

ConvertedReplica ConvertTfReplica(const std::string& role,
                                  ForeignObject replica,
                                  const ConversionOptions& options) {
  Json result = RoleHead(role, "Never", &replica);
  NoteExitCodes(result, &replica);
  ConvertedPod pod = ConvertPod(&replica, {kContainer});
  const LaunchCommand command = ConvertProgram(&pod, options, replica.conversion());
  NoteTfPort(&pod, replica.conversion());
  if (IsMpiLaunch(command)) {
    SetMpiProcesses(command, nullptr, &pod, &result, replica.conversion());
  } else {
    KeepTorchrunAlone(command, &pod, &result, replica.conversion());
  }
  result["template"] = pod.ToTemplate();
  replica.Finish();
  return {std::move(result), std::move(pod), command};
}

// With cleanPodPolicy None the pods beside the one whose success is the job's worked on.
void NoteOthersThatRanOn(const std::set<std::string>& names,
                         const Json& job_spec,
                         ForeignObject* spec) {
  const bool has_others =
      names.contains("evaluator") ||
      (names.contains("chief") && names.contains("worker") && !job_spec.contains("successPolicy"));
  if (has_others && job_spec.at("runPolicy").at("cleanPodPolicy") == "None") {
    spec->Note("runPolicy.cleanPodPolicy",
               "None, their default, let workers and evaluators work on after the job's success: "
               "here workers have 5 s to end by themselves, then they are ended, and evaluators at "
               "once; None keeps the pods and their logs. For workers that must end by themselves "
               "set successPolicy to AllWorkers");
  }
}

}  // namespace

Json ConvertTfJob(ForeignObject* spec, const ConversionOptions& options) {
  Json job_spec = Json::object();
  std::vector<ConvertedReplica> kept;
  std::set<std::string> names;
  ForeignObject replicas = spec->TakeObject("tfReplicaSpecs");
  if (!replicas) {
    spec->Fail("tfReplicaSpecs", "missing, expected the job's roles");
  }
  for (const std::string& type : replicas.Rest()) {
    const std::string role = RoleOf(type);
    if (role.empty()) {
      replicas.Fail(type, "no role of a TFJob, expected Chief, Master, Worker, PS or Evaluator");
      continue;
    }
    ConvertedReplica converted = ConvertTfReplica(role, replicas.TakeObject(type), options);
    if (converted.role.at("replicas") == 0) {
      replicas.Note(type, "not kept: it has no replicas");
    } else if (!names.insert(role).second) {
      replicas.Fail(type, "a second " + role + " found, expected one");
    } else {
      NoteOriginsOfRole(kept.size(), replicas.PathOf(type), converted.pod, spec->conversion());
      if (role == "chief" && type.size() == std::string_view("master").size()) {
        replicas.Note(
            type,
            "kept as chief: TF_CONFIG calls it so, in the cluster and as the task's type; "
            "a program that asks for master finds none");
      }
      kept.push_back(std::move(converted));
    }
  }
  spec->NoteOrigin("tfReplicaSpecs", "spec.roles");
  const bool is_of_mpi = NoteMpiLaunches(kept, spec->conversion());
  if (is_of_mpi && names.contains("ps")) {
    replicas.Fail("PS",
                  "found beside mpirun or horovodrun, expected none: Horovod has no such role");
  }
  job_spec["strategy"] = names.contains("ps") ? "ParameterServer"
                         : is_of_mpi          ? "Horovod"
                                              : "MultiWorkerMirrored";
  const std::string success = spec->TakeText("successPolicy").value_or("");
  if (success == "AllWorkers") {
    job_spec["successPolicy"] = "AllWorkers";
    if (names.contains("chief")) {
      spec->Note("successPolicy",
                 "kept: the job succeeds when the chief and every worker have succeeded");
    }
  } else if (!success.empty()) {
    spec->Fail("successPolicy", DescribeJson(success) + " found, expected AllWorkers or nothing");
  }
  spec->Drop("enableDynamicWorker",
             "not kept: TF_CONFIG names the whole cluster; the gang keeps its size");
  job_spec["roles"] = Json::array();
  for (ConvertedReplica& one : kept) {
    job_spec["roles"].push_back(std::move(one.role));
  }
  ConvertRunPolicy(spec, std::nullopt, &job_spec);
  NoteOthersThatRanOn(names, job_spec, spec);
  return job_spec;
}

}  // namespace lockstep::control
