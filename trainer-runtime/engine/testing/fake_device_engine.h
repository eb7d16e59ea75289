#pragma once

#include <memory>

#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// `inner`, which computes in the host's memory, as though it computed on a GPU: what the host has
// of it is an image apart, of NaN wherever the engine has come to other values since it was
// brought over, and an address of its gradients that nobody can read. Whoever forgets to bring
// something over trains on NaN, or changes nothing.
std::unique_ptr<Engine> MakeFakeDeviceEngine(std::unique_ptr<Engine> inner);

}  // namespace lockstep::runtime
