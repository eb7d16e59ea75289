#include "common/contract/hashed_document.h"

#include <map>

#include "common/base/digest.h"

namespace lockstep {
namespace {

constexpr const char* kHashKey = "sha256";

Json Sorted(const Json& value) {
  if (!value.is_object()) {
    return value;
  }
  std::map<std::string, const Json*> members;
  for (const auto& [key, member] : value.items()) {
    members[key] = &member;
  }
  Json sorted = Json::object();
  for (const auto& [key, member] : members) {
    sorted[key] = Sorted(*member);
  }
  return sorted;
}

}  // namespace

std::string DumpHashed(Json object, KeyOrder order) {
  const bool is_sorted = order == KeyOrder::kSorted;
  object[kHashKey] = Sha256Hex(DumpJson(is_sorted ? Sorted(object) : object));
  return DumpJsonPretty(is_sorted ? Sorted(object) : object);
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
