#pragma once

#include "trainer-runtime/engine/engine_checks.h"

// What holds for every network of network_cases.h with the engines of `make`. For tests.
namespace lockstep::runtime {

// The promises of engine_checks.h.
void CheckAllNetworks(const EngineFactory& make);

// Likewise in 16 bits.
void CheckAllNetworksInLowPrecision(const EngineFactory& make);

}  // namespace lockstep::runtime
