#include "operator/controller/master_key.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control {
namespace {

constexpr const char* kField = "key";

// What HMAC-SHA-256 makes the most of; RFC 2104 advises against less.
constexpr std::size_t kKeyBytesMin = 32;

// Of what a text in base64 stands for.
std::size_t DecodedSize(const std::string& base64) {
  return base64.size() / 4 * 3 -
         static_cast<std::size_t>(std::count(base64.begin(), base64.end(), '='));
}

// The value as it stands in the secret. It is base64, but nobody needs to know of what: its bytes
// are as secret as those it stands for.
Result<std::string> KeyIn(const std::string& body, const MasterKeyPlace& place) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json secret, ParseJson(body));
  std::vector<Error> ignored;
  ObjectReader reader(secret, "", &ignored);
  const Json* const data = reader.Find("data");
  if (data != nullptr) {
    ObjectReader fields(*data, "data", &ignored);
    if (auto key = fields.String(kField); key && !key->empty()) {
      if (const std::size_t size = DecodedSize(*key); size < kKeyBytesMin) {
        return Error(ErrorCode::kCorrupt,
                     std::to_string(size) + " bytes found, expected at least " +
                         std::to_string(kKeyBytesMin))
            .WithField("secret " + place.namespace_name + "/" + place.secret + ": data.key");
      }
      return std::move(*key);
    }
  }
  return Error(ErrorCode::kCorrupt, "the operator's Secret has no key");
}

Result<std::string> KeyOf(kube::CallResult result, const MasterKeyPlace& place) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Reply reply, kube::RequireSuccess(std::move(result)));
  return KeyIn(reply.body, place);
}

// The key in the secret, which is made of `key` where there is none. `field`: "stringData" of a key
// as it is, "data" of one as it stands in a secret.
Result<std::string> FindOrMake(kube::ApiCaller* api,
                               const MasterKeyPlace& place,
                               const char* field,
                               const std::string& key) {
  Result<std::string> found = KeyOf(api->Call(ReadMasterKey(place)), place);
  if (found.ok() || found.error().code() != ErrorCode::kNotFound) {
    return found;
  }
  const Json secret = {{"apiVersion", "v1"},
                       {"kind", "Secret"},
                       {"metadata", {{"name", place.secret}, {"namespace", place.namespace_name}}},
                       {"immutable", true},
                       {field, {{kField, key}}}};
  const Result<kube::Reply> created = kube::RequireSuccess(
      api->Call(kube::Create(kube::kSecrets, place.namespace_name, DumpJson(secret))));
  if (!created.ok() && created.error().code() != ErrorCode::kAlreadyExists) {
    return created.error();
  }
  return KeyOf(api->Call(ReadMasterKey(place)), place);  // ours, or that of another who was faster
}

}  // namespace

kube::Request ReadMasterKey(const MasterKeyPlace& place) {
  return kube::Get(kube::kSecrets, place.namespace_name, place.secret);
}

Result<std::string> MasterKeyIn(kube::CallResult result, const MasterKeyPlace& place) {
  Result<std::string> key = KeyOf(std::move(result), place);
  return key.ok() || key.error().code() != ErrorCode::kNotFound ? key : std::string();
}

Result<std::string> EnsureMasterKey(kube::ApiCaller* api,
                                    const MasterKeyPlace& place,
                                    const std::string& fresh) {
  return FindOrMake(api, place, "stringData", fresh);
}

Status PutBackMasterKey(kube::ApiCaller* api,
                        const MasterKeyPlace& place,
                        const std::string& held) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string found, FindOrMake(api, place, "data", held));
  return CompareMasterKey(found, held, place);
}

Status CompareMasterKey(const std::string& found,
                        const std::string& held,
                        const MasterKeyPlace& place) {
  if (found == held) {
    return OkStatus();
  }
  return Error(ErrorCode::kStale,
               "the Secret has a different key than this leader uses, and running pods would not "
               "accept the new key: delete the Secret, and the leader writes the old key again")
      .WithField("secret " + place.namespace_name + "/" + place.secret + ": data.key");
}

}  // namespace lockstep::control
