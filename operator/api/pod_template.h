#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/contract/environment.h"
#include "common/json/json.h"
#include "operator/api/training_job.h"

namespace lockstep::control {

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
