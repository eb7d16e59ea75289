#include <utility>
#include <vector>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/pod_conversion.h"
#include "operator/convert/torch_processes.h"

namespace lockstep::control {
namespace {

// What elasticPolicy says of how many processes a pod runs; the rest is noted.
std::string ConvertElasticPolicy(ForeignObject policy) {
  std::string per_pod;
  if (const auto count = policy.TakeCount("nProcPerNode")) {
    per_pod = std::to_string(*count);
  }
  for (const char* const key : {"minReplicas", "maxReplicas"}) {
    policy.Drop(key, "not kept: the gang keeps its size until somebody scales the job");
  }
  policy.Drop("metrics", "not kept: a HorizontalPodAutoscaler may set the scale of the job");
  for (const char* const key :
       {"rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone"}) {
    policy.Drop(key, "not kept: torchrun finds the job's pods by PET_MASTER_ADDR and its like");
  }
  policy.Finish();
  return per_pod;
}

// Kubeflow's operator takes MASTER_PORT from the port of this name.
void NoteMasterPort(ConvertedPod* pod, Conversion* conversion) {
  const Json ports = pod->container().value("ports", Json::array());
  for (std::size_t i = 0; ports.is_array() && i < ports.size(); ++i) {
    if (ports[i].is_object() && ports[i].value("name", Json()) == "pytorchjob-port") {
      conversion->notes.push_back({pod->container_path + ".ports[" + std::to_string(i) + "]",
                                   "was MASTER_PORT, which is 29500 here unless env sets it"});
    }
  }
}

ConvertedReplica ConvertPyTorchReplica(const std::string& role,
                                       ForeignObject replica,
                                       const TorchCount& per_pod,
                                       const ConversionOptions& options) {
  Conversion* const conversion = replica.conversion();
  Json result = RoleHead(role, "OnFailure", &replica);
  NoteExitCodes(result, &replica);
  ConvertedPod pod = ConvertPod(&replica, {"pytorch"});
  NoteMasterPort(&pod, conversion);
  const LaunchCommand command = ConvertProgram(&pod, options, conversion);
  if (IsMpiLaunch(command)) {
    SetMpiProcesses(command, nullptr, &pod, &result, conversion);
  } else {
    SetTorchProcesses(command, per_pod, &pod, &result, conversion);
  }
  result["template"] = pod.ToTemplate();
  replica.Finish();
  return {std::move(result), std::move(pod), command};
}

}  // namespace

Json ConvertPyTorchJob(ForeignObject* spec, const ConversionOptions& options) {
  Json job_spec = Json::object();
  const bool is_said = spec->Take("nprocPerNode") != nullptr;  // "1": it is refused
  TorchCount per_pod{spec->TakeText("nprocPerNode").value_or(is_said ? "1" : "auto"),
                     spec->PathOf("nprocPerNode"),
                     is_said};
  Json from_elastic = Json::object();
  ForeignObject elastic = spec->TakeObject("elasticPolicy");
  const auto restarts_max = elastic.TakeCount("maxRestarts");
  ConvertRunPolicy(spec, restarts_max, &from_elastic);
  if (restarts_max) {
    const bool is_kept = from_elastic.at("runPolicy").at("backoffLimit") == *restarts_max;
    elastic.Note("maxRestarts",
                 is_kept ? "kept as runPolicy.backoffLimit, which counts within a day"
                         : "not kept: runPolicy.backoffLimit says it");
  }
  const std::string of_elastic = ConvertElasticPolicy(std::move(elastic));
  if (!is_said && !of_elastic.empty()) {
    per_pod = {of_elastic, spec->PathOf("elasticPolicy.nProcPerNode"), true};
  }
  std::vector<ConvertedReplica> kept;
  bool has_chief = false;
  ForeignObject replicas = spec->TakeObject("pytorchReplicaSpecs");
  if (!replicas) {
    spec->Fail("pytorchReplicaSpecs", "missing, expected the job's roles");
  }
  for (const std::string& type : replicas.Rest()) {
    const std::string role = RoleOf(type);
    if (role != "chief" && role != "worker") {
      replicas.Fail(type, "no role of a PyTorchJob, expected Master or Worker");
      continue;
    }
    ConvertedReplica converted =
        ConvertPyTorchReplica(role, replicas.TakeObject(type), per_pod, options);
    if (converted.role.at("replicas") == 0) {
      replicas.Note(type, "not kept: it has no replicas");
      continue;
    }
    has_chief = has_chief || role == "chief";
    NoteOriginsOfRole(kept.size(), replicas.PathOf(type), converted.pod, spec->conversion());
    kept.push_back(std::move(converted));
  }
  const bool is_of_mpi = NoteMpiLaunches(kept, spec->conversion());
  spec->NoteOrigin("pytorchReplicaSpecs", "spec.roles");
  job_spec["strategy"] = is_of_mpi ? "Horovod" : "MultiWorkerMirrored";
  if (!has_chief) {
    job_spec["successPolicy"] = "AllWorkers";  // theirs has succeeded when every worker has
  }
  job_spec["roles"] = Json::array();
  for (ConvertedReplica& one : kept) {
    job_spec["roles"].push_back(std::move(one.role));
  }
  for (auto& [key, value] : from_elastic.items()) {
    job_spec[key] = value;
  }
  return job_spec;
}

}  // namespace lockstep::control
