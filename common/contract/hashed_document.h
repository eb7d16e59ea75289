#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/json/json.h"

namespace lockstep {

// In which order a document has its keys, which its hash depends on.
enum class KeyOrder {
  kAsWritten,  // the hash is the last
  kSorted,     // by their bytes, in all objects
};

// The object as text, with its own hash in it as the member `sha256`: so damage is told from a
// sound document by itself. `object` has no such member.
std::string DumpHashed(Json object, KeyOrder order = KeyOrder::kAsWritten);

// The object of `text` without the hash that DumpHashed put in, which is checked. Errors: kCorrupt,
// beginning with `what`.
Result<Json> ParseHashed(std::string_view text, const std::string& what);

}  // namespace lockstep
