#pragma once

#include <span>

#include "tests/fuzz/decoders.h"

namespace lockstep::fuzz {

// The decoders of what an API server sends. None has an encoder: their promises are that the same
// bytes mean the same wherever they are cut, and that an accepted object has a name.
std::span<const Decoder> KubeDecoders();

}  // namespace lockstep::fuzz
