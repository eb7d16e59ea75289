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

// Whether a newer version may take what these problems were found in: there is a field, or a word
// of a list, that this one does not know, and nothing that is wrong by itself, which it stays in
// every version. What is missing is not: the field that is not known may stand for it. The one rule
// for documents that cross versions; docs/reference/operator.md says who follows it.
bool MayBeNewer(const std::vector<Error>& problems);

// One error that tells all of `problems`: the first one's field and message, then the others, up to
// a bound. Code: the first one's, but kInvalidArgument for what is unknown or missing: who refuses
// the whole does not tell them apart. Precondition (checked): there is at least one.
Error CombineProblems(const std::vector<Error>& problems);

}  // namespace lockstep
