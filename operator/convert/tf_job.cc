#include <optional>
#include <set>
#include <utility>

#include "operator/convert/kubeflow_job.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {
namespace {

constexpr const char* kContainer = "tensorflow";
constexpr const char* kPort = "tfjob-port";
constexpr int kOurPort = 2222;

// TF_CONFIG names this port; theirs may have named another.
void NotePort(ConvertedPod* pod, Conversion* conversion) {
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

struct Replica {
  Json role;
  ConvertedPod pod;
};

Replica ConvertReplica(const std::string& role,
                       ForeignObject replica,
                       const ConversionOptions& options) {
  Json result = RoleHead(role, "Never", &replica);
  ConvertedPod pod = ConvertPod(&replica, {kContainer});
  ConvertProgram(&pod, options, replica.conversion());
  NotePort(&pod, replica.conversion());
  if (pod.gpu_count() > 1) {
    result["processes"] = 1;  // which drives them all, as before
  }
  result["template"] = pod.ToTemplate();
  replica.Finish();
  return {std::move(result), std::move(pod)};
}

}  // namespace

Json ConvertTfJob(ForeignObject* spec, const ConversionOptions& options) {
  Json job_spec = Json::object();
  Json roles = Json::array();
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
    Replica converted = ConvertReplica(role, replicas.TakeObject(type), options);
    if (converted.role.at("replicas") == 0) {
      replicas.Note(type, "not kept: it has no replicas");
    } else if (!names.insert(role).second) {
      replicas.Fail(type, "a second " + role + " found, expected one");
    } else {
      NoteOriginsOfRole(roles.size(), replicas.PathOf(type), converted.pod, spec->conversion());
      roles.push_back(std::move(converted.role));
    }
  }
  job_spec["strategy"] = names.contains("ps") ? "ParameterServer" : "MultiWorkerMirrored";
  if (spec->TakeText("successPolicy").value_or("") == "AllWorkers") {
    job_spec["successPolicy"] = "AllWorkers";
    if (names.contains("chief")) {
      spec->Note("successPolicy",
                 "kept: the job succeeds when the chief and every worker have succeeded");
    }
  }
  spec->Drop("enableDynamicWorker",
             "not kept: TF_CONFIG names the whole cluster; the gang keeps its size");
  job_spec["roles"] = std::move(roles);
  ConvertRunPolicy(spec, std::nullopt, &job_spec);
  return job_spec;
}

}  // namespace lockstep::control
