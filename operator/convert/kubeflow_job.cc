#include "operator/convert/kubeflow_job.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/contract/text/text.h"
#include "operator/convert/mpi_launch.h"

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
    policy.Note("queue", "kept: create a TrainingQueue of this name");
  }
  policy.CopyAs("priorityClass", "priorityClassName", &scheduling);
  policy.NoteOrigin("queue", "spec.scheduling.queue");
  policy.NoteOrigin("priorityClass", "spec.scheduling.priorityClassName");
  policy.Drop("scheduleTimeoutSeconds",
              "not kept: a TrainingJob waits until its gang is placed; to let the job fail after a "
              "time, set scheduling.timeoutSeconds");
  policy.Drop("minAvailable", "not kept: Lockstep places all pods of a gang or none");
  policy.Drop("minResources", "not kept: Lockstep adds up what the pods of the gang request");
  policy.Finish();
  if (!scheduling.empty()) {
    (*job_spec)["scheduling"] = std::move(scheduling);
  }
}

// "PS" -> "ps", "Master" -> "chief".
std::string RoleOf(const std::string& replica_type) {
  std::string name = replica_type;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  if (name == "master") {
    return "chief";
  }
  return name;
}

// Says of a role with restartPolicy ExitCode which codes are handled otherwise here.
// Source: IsRetryableExitCode of kubeflow/common, and docs/reference/exit-codes.md.
void NoteExitCodes(const Json& role, ForeignObject* replica) {
  if (role.at("restartPolicy") == "ExitCode") {
    replica->Note(
        "restartPolicy",
        "kept, but other exit codes lead to a retry. Kubeflow retried only 128 to 255. Lockstep "
        "also retries 42, 70, 75, 76, 81 and 82, but fails the job for 128 and 193 to 255");
  }
}

// The port that the operator hands on.
void NotePort(const ReplicaKind& kind, ConvertedPod* pod, Conversion* conversion) {
  const Json ports = pod->OfContainer("ports");
  for (std::size_t i = 0; ports.is_array() && i < ports.size(); ++i) {
    if (MemberOf(ports[i], "name") == kind.port &&
        MemberOf(ports[i], "containerPort") != kind.our_port) {
      conversion->notes.push_back(
          {pod->container_path + ".ports[" + std::to_string(i) + "]", kind.port_note});
    }
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
      now.Note("managedBy", "not kept: Lockstep's operator manages the job");
    } else {
      policy["managedBy"] = *managed_by;
    }
  }
  if (!policy.contains("backoffLimit") && restarts_max) {
    policy["backoffLimit"] = *restarts_max;
  } else if (!policy.contains("backoffLimit")) {
    now.Note(
        "backoffLimit",
        "not set, which meant " + unsaid + ": a TrainingJob survives 6 incidents within a day");
  }
  ConvertSchedulingPolicy(now.TakeObject("schedulingPolicy"), job_spec);
  now.Finish();
  (*job_spec)["runPolicy"] = std::move(policy);
}

Json RoleHead(const std::string& role, const std::string& restart_policy, ForeignObject* replica) {
  return Json{{"name", role},
              {"replicas", replica->TakeCount("replicas").value_or(1)},
              {"restartPolicy", replica->TakeText("restartPolicy").value_or(restart_policy)}};
}

std::vector<ConvertedReplica> ConvertReplicas(
    const ReplicaKind& kind,
    const ConversionOptions& options,
    const std::function<void(ConvertedReplica* replica)>& set_processes,
    ForeignObject* spec) {
  Conversion* const conversion = spec->conversion();
  std::vector<ConvertedReplica> kept;
  ForeignObject replicas = spec->TakeObject(kind.key);
  if (!replicas) {
    spec->Fail(kind.key, "missing, expected the roles of the job");
  }
  for (const std::string& type : replicas.Rest()) {
    const std::string role = RoleOf(type);
    if (!IsListed(role, kind.roles)) {
      replicas.Fail(type, kind.unknown);
      continue;
    }
    ForeignObject replica = replicas.TakeObject(type);
    ConvertedReplica converted{RoleHead(role, kind.restart_policy, &replica), {}};
    NoteExitCodes(converted.role, &replica);
    converted.pod = ConvertPod(&replica, {kind.container});
    NotePort(kind, &converted.pod, conversion);
    ConvertProgram(&converted, options, conversion);
    if (converted.command.is_of_mpi()) {
      SetMpiProcesses(nullptr, &converted, conversion);
    } else {
      set_processes(&converted);
    }
    converted.role["template"] = converted.pod.ToTemplate();
    replica.Finish();
    if (converted.role.at("replicas") == 0) {
      replicas.Note(type, "not kept: the role has no replicas");
      continue;
    }
    if (HasRole(role, kept)) {
      replicas.Fail(type, "a second role " + role + " found, expected one");
      continue;
    }
    NoteOriginsOfRole(kept.size(), replicas.PathOf(type), converted.pod, conversion);
    const std::string master_note = kind.master_note;
    if (!master_note.empty() && role == "chief" && type.size() == std::string("master").size()) {
      replicas.Note(type, master_note);
    }
    kept.push_back(std::move(converted));
  }
  spec->NoteOrigin(kind.key, "spec.roles");
  return kept;
}

bool HasRole(const std::string& name, const std::vector<ConvertedReplica>& replicas) {
  return std::ranges::any_of(replicas,
                             [&](const auto& one) { return one.role.at("name") == name; });
}

Json RolesOf(const std::vector<ConvertedReplica>& replicas) {
  Json roles = Json::array();
  for (const ConvertedReplica& one : replicas) {
    roles.push_back(one.role);
  }
  return roles;
}

}  // namespace lockstep::control
