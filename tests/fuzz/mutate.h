#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/prng.h"

namespace lockstep::fuzz {

// One input made from `seeds` by one to eight small damages: bits flipped, bytes or pieces dropped,
// doubled, overwritten or taken from another seed, words of JSON put in. Equal generator states
// give equal inputs. Precondition (checked): there is a seed.
std::string Mutate(const std::vector<std::string>& seeds, Prng* prng);

}  // namespace lockstep::fuzz
