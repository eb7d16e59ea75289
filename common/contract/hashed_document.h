#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/json/json.h"

namespace lockstep {

// The object as text, with its own hash in it as the last member, `sha256`: so damage is told from
// a sound document by itself. `object` has no such member.
std::string DumpHashed(Json object);

// The object of `text` without the hash that DumpHashed put in, which is checked. Errors: kCorrupt,
// beginning with `what`.
Result<Json> ParseHashed(std::string_view text, const std::string& what);

}  // namespace lockstep
