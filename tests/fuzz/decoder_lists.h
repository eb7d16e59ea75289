#pragma once

#include <span>

#include "tests/fuzz/decoders.h"

namespace lockstep::fuzz {

// The decoders of common/, of the operator and of the runtime.
std::span<const Decoder> CommonDecoders();
std::span<const Decoder> OperatorDecoders();

// The decoders of what an API server sends. None has an encoder: their promises are that the same
// bytes mean the same wherever they are cut, and that an accepted object has a name.
std::span<const Decoder> KubeDecoders();

std::span<const Decoder> RuntimeDecoders();

}  // namespace lockstep::fuzz
