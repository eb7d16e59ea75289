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
    return Error(ErrorCode::kCorrupt,
                 what + ": not JSON; expected an object with the field " + std::string(kHashKey));
  }
  if (!parsed->is_object() || !parsed->contains(kHashKey)) {
    return Error(ErrorCode::kCorrupt, what + ": the field " + kHashKey + " is missing");
  }
  const Json hash = parsed->at(kHashKey);
  parsed->erase(kHashKey);
  const std::string found = Sha256Hex(DumpJson(*parsed));
  if (hash != found) {
    const bool is_hash = hash.is_string() && hash.get<std::string>().size() == found.size();
    return Error(ErrorCode::kCorrupt,
                 what + ": hashes to " + found + ", expected " +
                     (is_hash ? hash.get<std::string>() : DescribeJson(hash)));
  }
  return parsed;
}

}  // namespace lockstep
