#include "common/contract/hashed_document.h"

#include "common/base/digest.h"

namespace lockstep {
namespace {

constexpr const char* kHashKey = "sha256";

}  // namespace

std::string DumpHashed(Json object) {
  object[kHashKey] = Sha256Hex(DumpJson(object));
  return DumpJsonPretty(object);
}

Result<Json> ParseHashed(std::string_view text, const std::string& what) {
  Result<Json> parsed = ParseJson(text);
  if (!parsed.ok()) {
    return Error(ErrorCode::kCorrupt, what + ": " + parsed.error().message());
  }
  if (!parsed->is_object() || !parsed->contains(kHashKey)) {
    return Error(ErrorCode::kCorrupt,
                 what + ": no " + kHashKey + " found, expected an object with this key");
  }
  const Json hash = parsed->at(kHashKey);
  parsed->erase(kHashKey);
  const std::string expected = Sha256Hex(DumpJson(*parsed));
  if (hash != expected) {
    return Error(ErrorCode::kCorrupt,
                 what + ": its hash is " + DescribeJson(hash) + ", expected " + expected);
  }
  return parsed;
}

}  // namespace lockstep
