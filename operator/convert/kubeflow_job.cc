#include "operator/convert/kubeflow_job.h"

#include <algorithm>
#include <cctype>

namespace lockstep::control {
namespace {

// How the field is called by its own operator when that is to act: the same as leaving it out.
bool IsTheirOwn(const std::string& managed_by) {
  return managed_by == "kubeflow.org/training-operator" ||
         managed_by == "kubeflow.org/mpi-operator";
}

void ConvertSchedulingPolicy(ForeignObject policy, Json* job_spec) {
  Json scheduling = Json::object();
  if (const auto queue = policy.TakeText("queue"); queue.has_value() && !queue->empty()) {
    scheduling["queue"] = *queue;
    policy.Note("queue", "kept: a TrainingQueue of this name has to exist");
  }
  policy.CopyAs("priorityClass", "priorityClassName", &scheduling);
  policy.NoteOrigin("queue", "spec.scheduling.queue");
  policy.NoteOrigin("priorityClass", "spec.scheduling.priorityClassName");
  policy.Drop("scheduleTimeoutSeconds",
              "not kept: a gang that was not placed in time was tried again, and here it waits; "
              "scheduling.timeoutSeconds fails the job then");
  policy.Drop("minAvailable", "not kept: a gang is placed whole or not at all");
  policy.Drop("minResources", "not kept: what the gang needs is counted from its pods");
  policy.Finish();
  if (!scheduling.empty()) {
    (*job_spec)["scheduling"] = std::move(scheduling);
  }
}

}  // namespace

void ConvertRunPolicy(ForeignObject* spec,
                      std::optional<int64_t> restarts_max,
                      Json* job_spec,
                      const std::string& unsaid) {
  Json policy = {{"cleanPodPolicy", "None"}};  // their default
  ForeignObject now = spec->TakeObject("runPolicy");
  for (ForeignObject* const from : {spec, &now}) {
    for (const char* const key : {"cleanPodPolicy",
                                  "ttlSecondsAfterFinished",
                                  "activeDeadlineSeconds",
                                  "backoffLimit",
                                  "suspend"}) {
      from->Copy(key, &policy);
      from->NoteOrigin(key, std::string("spec.runPolicy.") + key);
    }
  }
  if (const auto managed_by = now.TakeText("managedBy"); managed_by.has_value()) {
    if (IsTheirOwn(*managed_by)) {
      now.Note("managedBy", "not kept: Lockstep's operator looks after the job");
    } else {
      policy["managedBy"] = *managed_by;
    }
  }
  if (!policy.contains("backoffLimit") && restarts_max) {
    policy["backoffLimit"] = *restarts_max;
  } else if (!policy.contains("backoffLimit")) {
    now.Note("backoffLimit",
             "not there, which meant " + unsaid +
                 ": a TrainingJob gives up after 6 incidents within a day");
  }
  ConvertSchedulingPolicy(now.TakeObject("schedulingPolicy"), job_spec);
  now.Finish();
  (*job_spec)["runPolicy"] = std::move(policy);
}

std::string RoleOf(const std::string& replica_type) {
  std::string name = replica_type;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  if (name == "master") {
    return "chief";
  }
  return name == "chief" || name == "worker" || name == "ps" || name == "evaluator" ? name : "";
}

// Source: IsRetryableExitCode of kubeflow/common, and docs/reference/exit-codes.md.
void NoteExitCodes(const Json& role, ForeignObject* replica) {
  if (role.at("restartPolicy") == "ExitCode") {
    replica->Note("restartPolicy",
                  "kept, with other codes: Kubeflow tried 128 to 255 again and no code below; here "
                  "128 and 193 to 255 fail the job too, and 70, 75, 76, 81 and 82 are tried again, "
                  "and so is 42");
  }
}

Json RoleHead(const std::string& role, const std::string& restart_policy, ForeignObject* replica) {
  return Json{{"name", role},
              {"replicas", replica->TakeCount("replicas").value_or(1)},
              {"restartPolicy", replica->TakeText("restartPolicy").value_or(restart_policy)}};
}

}  // namespace lockstep::control
