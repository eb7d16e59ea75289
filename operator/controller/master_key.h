#pragma once

#include <string>

#include "common/base/result.h"
#include "operator/kube/request.h"

namespace lockstep::control {

// Where the operator keeps the key from which every job's own is derived.
struct MasterKeyPlace {
  std::string namespace_name;
  std::string secret;
};

// The master key. The first leader of a cluster makes it of `fresh`, which is random; who comes
// later finds it. Errors: kCorrupt (the secret holds no key), those of the API server.
Result<std::string> EnsureMasterKey(kube::ApiCaller* api,
                                    const MasterKeyPlace& place,
                                    const std::string& fresh);

// The request that reads it, for who does not lead, and whether who leads could have it: a secret
// that is not there is made then. Errors: as of EnsureMasterKey.
kube::Request ReadMasterKey(const MasterKeyPlace& place);
Status CheckMasterKey(kube::CallResult result, const MasterKeyPlace& place);

}  // namespace lockstep::control
