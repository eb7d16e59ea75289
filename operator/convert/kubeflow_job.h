#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/convert/foreign_object.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// What the kinds of kubeflow.org have in common. `spec` is the foreign one, `job_spec` ours.

// runPolicy, where it is now and where versions before v1 had it. `restarts_max`: how many restarts
// another field of the job allows, which holds where no backoffLimit says it; `unsaid`: what it
// means there that neither does.
inline constexpr const char* kNoLimit = "no limit";
void ConvertRunPolicy(ForeignObject* spec,
                      std::optional<int64_t> restarts_max,
                      Json* job_spec,
                      const std::string& unsaid = kNoLimit);

// {name, replicas, restartPolicy}; `restart_policy` where the manifest says none.
Json RoleHead(const std::string& role, const std::string& restart_policy, ForeignObject* replica);

// How the kinds that list their roles by type differ. Notes without a text are not made.
struct ReplicaKind {
  const char* key;             // the field that holds the list
  const char* roles;           // the types that it may have, by our names
  const char* unknown;         // the message for any other type
  const char* restart_policy;  // of a role that names none
  const char* container;       // the name of the container that trains
  const char* port;            // the name of the port whose number pods are told
  int our_port = 0;            // the number that Lockstep uses; another one makes a note
  const char* port_note = "";
  const char* master_note = "";
};

// The roles under `kind.key` of `spec` that have replicas. `set_processes` is called for those that
// neither mpirun nor horovodrun starts.
std::vector<ConvertedReplica> ConvertReplicas(
    const ReplicaKind& kind,
    const ConversionOptions& options,
    const std::function<void(ConvertedReplica* replica)>& set_processes,
    ForeignObject* spec);

bool HasRole(const std::string& name, const std::vector<ConvertedReplica>& replicas);
Json RolesOf(const std::vector<ConvertedReplica>& replicas);

// The kinds. `spec` is finished by them.
Json ConvertTfJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertPyTorchJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertMpiJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertMpiJobWithJob(ForeignObject* spec, const ConversionOptions& options);
Json ConvertTrainJob(ForeignObject* spec, const ConversionOptions& options);

}  // namespace lockstep::control
