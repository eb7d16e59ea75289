#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/mpi_launch.h"
#include "operator/convert/torch_processes.h"

namespace lockstep::control {
namespace {

// With cleanPodPolicy None the pods beside the one whose success is the job's worked on.
void NoteOthersThatRanOn(const std::vector<ConvertedReplica>& replicas,
                         const Json& job_spec,
                         ForeignObject* spec) {
  const bool has_others = HasRole("evaluator", replicas) ||
                          (HasRole("chief", replicas) && HasRole("worker", replicas) &&
                           !job_spec.contains("successPolicy"));
  if (has_others && job_spec.at("runPolicy").at("cleanPodPolicy") == "None") {
    spec->Note("runPolicy.cleanPodPolicy",
               "in Kubeflow, None (the default) lets workers and evaluators continue after the job "
               "succeeds. Lockstep stops evaluators when the job succeeds, and workers 5 s later; "
               "None keeps only their pods and logs. To let workers end by themselves, set "
               "successPolicy to AllWorkers");
  }
}

}  // namespace

Json ConvertTfJob(ForeignObject* spec, const ConversionOptions& options) {
  Json job_spec = Json::object();
  std::vector<ConvertedReplica> replicas = ConvertReplicas(
      {.key = "tfReplicaSpecs",
       .roles = "chief worker ps evaluator",
       .unknown = "not a role of a TFJob, expected Chief, Master, Worker, PS or Evaluator",
       .restart_policy = "Never",
       .container = "tensorflow",
       .port = "tfjob-port",
       .our_port = 2222,
       .port_note = "not used: TF_CONFIG always has port 2222; the server must listen on that port",
       .master_note = "kept as chief: TF_CONFIG has chief, in the cluster and as the task's type. "
                      "A program that looks for master finds no such task"},
      options,
      [&](ConvertedReplica* replica) { KeepTorchrunAlone(replica, spec->conversion()); },
      spec);
  const bool is_of_mpi = NoteMpiLaunches(replicas, false, spec->conversion());
  const bool has_ps = HasRole("ps", replicas);
  if (is_of_mpi && has_ps) {
    spec->Fail("tfReplicaSpecs.PS",
               "cannot be used with mpirun or horovodrun: Horovod has no parameter servers");
  }
  job_spec["strategy"] = has_ps ? "ParameterServer" : is_of_mpi ? "Horovod" : "MultiWorkerMirrored";
  const std::string success = spec->TakeText("successPolicy").value_or("");
  if (success == "AllWorkers") {
    job_spec["successPolicy"] = "AllWorkers";
    if (HasRole("chief", replicas)) {
      spec->Note("successPolicy",
                 "kept: the job succeeds when the chief and every worker have succeeded");
    }
  } else if (!success.empty()) {
    spec->Fail("successPolicy",
               DescribeJson(success) + " found, expected AllWorkers or an empty value");
  }
  spec->Drop("enableDynamicWorker",
             "not kept: TF_CONFIG lists the whole cluster, so the number of workers is fixed");
  job_spec["roles"] = RolesOf(replicas);
  ConvertRunPolicy(spec, std::nullopt, &job_spec);
  NoteOthersThatRanOn(replicas, job_spec, spec);
  return job_spec;
}

}  // namespace lockstep::control
