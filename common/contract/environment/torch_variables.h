#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/environment/environment.h"

namespace lockstep {

// Variables of torch's process groups that decide what a rank does when another one is lost or
// hangs. docs/how-to/unchanged-pytorch.md has the same table, with the reasons.

// Sets those that help recovery in the environment of a rank. What is set already, also under the
// name that other releases of torch read, stays. `hung_after`: recovery.hungAfterSeconds. Pure.
void SetTorchVariables(std::optional<std::chrono::milliseconds> hung_after,
                       EnvironmentMap* variables);

// One sentence for each of `variables` whose value works against recovery, with what to do. Pure.
std::vector<std::string> ObjectionsToTorchVariables(
    const EnvironmentMap& variables, std::optional<std::chrono::milliseconds> hung_after);

}  // namespace lockstep
