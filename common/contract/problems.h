#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace lockstep {

// An Error{kInvalidArgument} in the form all input errors have: "FIELD: FOUND found, expected
// EXPECTED". `found` is the value as people would write it.
Error Problem(std::string field, std::string_view found, std::string_view expected);

// `text` in quotes, cut to one short line; for the `found` of a Problem.
std::string Quoted(std::string_view text);

// One error that tells all of `problems`: the first one's code, field and message, then the others,
// up to a bound. Precondition (checked): there is at least one.
Error CombineProblems(const std::vector<Error>& problems);

}  // namespace lockstep
