#include <algorithm>
#include <utility>
#include <vector>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/operator_variables.h"
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
    policy.Drop(key, "not kept: ranks meet by Lockstep's own rendezvous");
  }
  policy.Finish();
  return per_pod;
}

struct PerPod {
  std::string text;
  std::string field;
};

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
                                       const PerPod& per_pod,
                                       const ConversionOptions& options) {
  Conversion* const conversion = replica.conversion();
  Json result = RoleHead(role, "OnFailure", &replica);
  NoteExitCodes(result, &replica);
  ConvertedPod pod = ConvertPod(&replica, {"pytorch"});
  NoteMasterPort(&pod, conversion);
  const LaunchCommand command =
      ConvertProgram(&pod, TorchrunIsTold::kByOperator, options, conversion);
  SetTorchProcesses(command, per_pod.text, per_pod.field, &pod, &result, conversion);
  if (IsMpiLaunch(command)) {
    SetMpiProcesses(command, nullptr, &pod, &result, conversion);
  }
  result["template"] = pod.ToTemplate();
  replica.Finish();
  return {std::move(result), std::move(pod), command};
}

// Whether those who start together were told of as many as there are, and who tells them now.
void NoteRankCounts(const std::vector<ConvertedReplica>& all, Conversion* conversion) {
  int64_t ranks = 0;
  int64_t pods = 0;
  for (const ConvertedReplica& one : all) {
    ranks += RanksOf(one.role, one.pod);
    pods += one.role.at("replicas").get<int64_t>();
  }
  bool is_unseen_said = false;
  for (const ConvertedReplica& one : all) {
    is_unseen_said = is_unseen_said || NoteUnseenLauncher(one.command, pods, conversion);
    const int64_t replicas = one.role.at("replicas").get<int64_t>();
    NoteVariablesOfOperator(
        one.command, one.pod, RanksOf(one.role, one.pod) / replicas, pods, conversion);
    if (IsMpiLaunch(one.command)) {
      NoteMpiLaunch(one.command, ranks, one.role.at("processes").get<int64_t>(), false, conversion);
    }
    NoteRankCount(one.command, ranks, one.pod, conversion);
    NoteMachineCount(one.command, one.pod, pods, conversion);
    NoteOuterCount(one.command, 1, 1, conversion);  // in each pod, as it knows of no other
  }
}

}  // namespace

Json ConvertPyTorchJob(ForeignObject* spec, const ConversionOptions& options) {
  Json job_spec = Json::object();
  const bool is_said = spec->Take("nprocPerNode") != nullptr;  // "1": it is refused
  PerPod per_pod{spec->TakeText("nprocPerNode").value_or(is_said ? "1" : ""),
                 spec->PathOf("nprocPerNode")};
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
  if (per_pod.text.empty() && !of_elastic.empty()) {
    per_pod = {of_elastic, spec->PathOf("elasticPolicy.nProcPerNode")};
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
  NoteRankCounts(kept, spec->conversion());
  spec->NoteOrigin("pytorchReplicaSpecs", "spec.roles");
  const bool is_of_mpi = std::any_of(kept.begin(), kept.end(), [](const ConvertedReplica& one) {
    return IsMpiLaunch(one.command);
  });
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
