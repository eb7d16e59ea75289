#include "operator/convert/train_runtime.h"

#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

constexpr const char* kDefaultKind = "ClusterTrainingRuntime";

const Json* FindRuntime(const std::string& kind,
                        const std::string& name,
                        const std::vector<Json>& runtimes) {
  for (const Json& runtime : runtimes) {
    if (MemberOf(runtime, "kind") == kind &&
        MemberOf(MemberOf(runtime, "metadata"), "name") == name) {
      return &runtime;
    }
  }
  return nullptr;
}

// What starts the ranks by the runtime's name. Source: the runtimes that kubeflow/trainer v2.3
// installs.
std::string KindByName(const std::string& name) {
  if (name == "deepspeed-distributed" || name == "mlx-distributed") {
    return "mpi";
  }
  for (const char* const kind : {"flux", "mpi"}) {
    if (name.find(kind) != std::string::npos) {
      return kind;
    }
  }
  return "";
}

void ReadPolicy(ForeignObject policy, TrainRuntime* runtime) {
  runtime->nodes = policy.TakeCount("numNodes");
  for (const char* const kind : {"torch", "mpi", "flux"}) {
    ForeignObject one = policy.TakeObject(kind);
    if (!one) {
      continue;
    }
    runtime->kind = kind;
    if (const Json* const count = one.Take("numProcPerNode")) {
      runtime->per_pod = TextOf(*count);
      runtime->per_pod_field = one.PathOf("numProcPerNode");
    }
    for (const char* const key : {"mpiImplementation", "sshAuthMountPath", "runLauncherAsNode"}) {
      one.Drop(key, "not kept: Lockstep does not use ssh");
    }
    one.Finish();
  }
  policy.Finish();
}

// The pods of the replicated job `node`.
void ReadTrainingPod(ForeignObject job_set, TrainRuntime* runtime) {
  job_set.Drop("metadata", "not kept: Lockstep creates no JobSet");
  ForeignObject spec = job_set.TakeObject("spec");
  for (ForeignObject& job : spec.TakeObjects("replicatedJobs")) {
    const std::string name = job.TakeText("name").value_or("");
    if (name != "node") {
      job.Note("name",
               "not kept: only the pods of the replicated job \"node\" train; the pods of " + name +
                   " are left out");
      continue;
    }
    ForeignObject batch_job = job.TakeObject("template");
    batch_job.Take("metadata");  // labels by which Kubeflow finds what trains
    ForeignObject batch_spec = batch_job.TakeObject("spec");
    runtime->pod = ConvertPod(&batch_spec, {"node", "trainer"});
    runtime->is_known = true;
    batch_spec.Finish();
    batch_job.Finish();
    job.Finish();
  }
  spec.Finish();
  job_set.Finish();
}

}  // namespace

TrainRuntime ReadTrainRuntime(ForeignObject ref, const ConversionOptions& options) {
  const std::string name = ref.TakeText("name").value_or("");
  const std::string kind = ref.TakeText("kind").value_or(kDefaultKind);
  ref.Take("apiGroup");
  ref.Finish();
  TrainRuntime runtime;
  runtime.pod.spec["containers"] = Json::array({Json{{"name", "trainer"}}});
  if (const Json* const found = FindRuntime(kind, name, options.runtimes)) {
    const Json of_runtime = MemberOf(*found, "spec");
    ForeignObject spec(&of_runtime, kind + " " + name + ": spec", ref.conversion());
    ReadPolicy(spec.TakeObject("mlPolicy"), &runtime);
    ReadTrainingPod(spec.TakeObject("template"), &runtime);
    spec.Finish();
  } else {
    runtime.kind = KindByName(name);
    ref.Note("name",
             "the runtime" + (name.empty() ? "" : " " + name) +
                 " is not in this file, so the job lacks what this runtime adds to the pods "
                 "(image, volumes, "
                 "init steps)");
  }
  return runtime;
}

}  // namespace lockstep::control
