#pragma once

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/copy_on_write.h"
#include "common/base/error.h"
#include "common/base/value_members.h"
#include "common/contract/environment/environment.h"
#include "common/json/json.h"
#include "operator/api/job/pod_affinity.h"
#include "operator/resources/node_affinity.h"
#include "operator/resources/resource_vector.h"
#include "operator/resources/toleration.h"

namespace lockstep::control {

// The container the operator looks after where a template holds several; else the first.
inline constexpr std::string_view kTrainerContainer = "trainer";

// Environment variables whose values the cluster knows: one (env[].valueFrom), or as many as the
// source has (envFrom[]).
struct EnvironmentSource {
  std::string variable;      // empty: as many as the source has
  std::string path;          // where it is written: "spec.roles[0].template. ... .env[1].valueFrom"
  std::string kind;          // "secretKeyRef", "fieldRef", "configMapRef", ...
  std::string field;         // of a fieldRef: which one, "metadata.name"
  bool is_optional = false;  // without it the variable is left out

  friend bool operator==(const EnvironmentSource&, const EnvironmentSource&) = default;
};

// A container that runs before the trainer, or as a sidecar beside it.
struct InitContainer {
  std::string name;
  ResourceVector requests;
  bool is_sidecar = false;

  friend bool operator==(const InitContainer&, const InitContainer&) = default;
};

// The part of a pod template that the operator reads, and the whole of it as written.
struct PodTemplate {
  LOCKSTEP_DECLARE_VALUE_MEMBERS(PodTemplate);

  std::string trainer_name{kTrainerContainer};  // of its container
  std::string image;
  std::vector<std::string> command;  // replaces the image's entry point
  std::vector<std::string> args;
  std::map<std::string, std::string> env;      // with values
  std::vector<EnvironmentSource> env_sources;  // the others
  std::vector<InitContainer> init_containers;  // in the order in which they start
  std::string working_dir;
  ResourceVector requests;  // the trainer's, as are the limits
  ResourceVector limits;    // zero: no limit
  std::chrono::seconds termination_grace{30};
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  CopyOnWrite<std::vector<NodeTerm>> node_affinity;  // required; empty: any node
  std::vector<PodTerm> pod_terms;                    // what the pod requires of other pods
  ResourceVector overhead;                           // what the pod costs beside its containers
  ResourceVector pod_requests;  // of all containers together, in place of theirs
  ResourceVector pod_limits;    // likewise; zero: no limit
  // {metadata, spec} as written; empty object without a template. A megabyte, perhaps, and jobs are
  // copied for each decision.
  CopyOnWrite<Json> raw{Json::object()};

  // Whether the template names a command for the trainer container.
  bool has_command() const { return !command.empty() || !args.empty(); }

  friend bool operator==(const PodTemplate&, const PodTemplate&) = default;
};

// Set by the operator for every pod; a value of the user's would break the wiring.
inline constexpr std::array<std::string_view, 21> kReservedEnvironment = {
    env::kTfConfig,
    env::kTorchRank,
    env::kTorchWorldSize,
    env::kTorchLocalRank,
    env::kTorchLocalWorldSize,
    env::kTorchMasterAddress,
    env::kTorchNodeRank,
    env::kTorchGroupRank,
    env::kTorchRunId,
    env::kTorchRestartCount,
    env::kHorovodRank,
    env::kHorovodSize,
    env::kHorovodLocalRank,
    env::kHorovodLocalSize,
    env::kHorovodCrossRank,
    env::kHorovodCrossSize,
    env::kHorovodHostname,
    env::kHorovodController,
    env::kHorovodCpuOperations,
    env::kHorovodRendezvousAddress,
    env::kHorovodRendezvousPort};
inline constexpr std::string_view kReservedPrefix = "LOCKSTEP_";

// The one name with that prefix that is the program's: where Python looks for liblockstep.
inline constexpr std::string_view kLibraryVariable = "LOCKSTEP_LIBRARY";

// Whether the operator sets a variable of that name in every pod, so that a template may not.
bool IsReservedVariable(std::string_view name);

// Of the names of containers and volumes that the operator adds to a pod.
inline constexpr std::string_view kOwnNamePrefix = "lockstep-";

// Reads a role's pod template: what the operator uses is checked and typed, what is Kubernetes' own
// passes through in `raw`, and names that Kubernetes does not know are errors, as are fields that
// belong to the operator.
PodTemplate DecodePodTemplate(const Json& value,
                              const std::string& path,
                              std::vector<Error>* errors);

// Where the one container stands under a template: "spec.containers[0]".
inline constexpr std::string_view kContainerPath = "spec.containers[0]";

}  // namespace lockstep::control
