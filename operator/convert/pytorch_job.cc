#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
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
    policy.Drop(key, "not kept: the size of the gang changes only when somebody scales the job");
  }
  policy.Drop("metrics", "not kept: use a HorizontalPodAutoscaler to scale the job");
  for (const char* const key :
       {"rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone"}) {
    policy.Drop(key,
                "not kept: torchrun finds the job's pods by PET_MASTER_ADDR and similar variables");
  }
  policy.Finish();
  return per_pod;
}

}  // namespace

// Source of what nprocPerNode does to WORLD_SIZE: pkg/controller.v1/pytorch/envvar.go of
// kubeflow/trainer v1.9.
Json ConvertPyTorchJob(ForeignObject* spec, const ConversionOptions& options) {
  Json job_spec = Json::object();
  const bool is_said = spec->Take("nprocPerNode") != nullptr;  // "1": it is refused
  TorchCount per_pod{spec->TakeText("nprocPerNode").value_or(is_said ? "1" : "auto"),
                     spec->PathOf("nprocPerNode"),
                     is_said,
                     true};
  Json from_elastic = Json::object();
  ForeignObject elastic = spec->TakeObject("elasticPolicy");
  const auto restarts_max = elastic.TakeCount("maxRestarts");
  ConvertRunPolicy(spec, restarts_max, &from_elastic);
  if (restarts_max) {
    const bool is_kept = from_elastic.at("runPolicy").at("backoffLimit") == *restarts_max;
    elastic.Note("maxRestarts",
                 is_kept ? "kept as runPolicy.backoffLimit, which counts incidents within a day"
                         : "not kept: runPolicy.backoffLimit is used instead");
  }
  const std::string of_elastic = ConvertElasticPolicy(std::move(elastic));
  if (!is_said && !of_elastic.empty()) {
    per_pod = {of_elastic, spec->PathOf("elasticPolicy.nProcPerNode"), true, true};
  }
  std::vector<ConvertedReplica> replicas = ConvertReplicas(
      {.key = "pytorchReplicaSpecs",
       .roles = "chief worker",
       .unknown = "not a role of a PyTorchJob, expected Master or Worker",
       .restart_policy = "OnFailure",
       .container = "pytorch",
       .port = "pytorchjob-port",
       .port_note = "was the value of MASTER_PORT; in the TrainingJob, MASTER_PORT is 29500 unless "
                    "env sets it"},
      options,
      [&](ConvertedReplica* replica) { SetTorchProcesses(per_pod, replica, spec->conversion()); },
      spec);
  job_spec["strategy"] =
      NoteMpiLaunches(replicas, false, spec->conversion()) ? "Horovod" : "MultiWorkerMirrored";
  if (!HasRole("chief", replicas)) {
    job_spec["successPolicy"] = "AllWorkers";  // theirs has succeeded when every worker has
  }
  job_spec["roles"] = RolesOf(replicas);
  job_spec.update(from_elastic);
  return job_spec;
}

}  // namespace lockstep::control
