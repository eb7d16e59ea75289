#pragma once

#include <string>

#include "common/base/result.h"
#include "operator/kubeclient/kube/request.h"

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

// The request that reads it, and what its answer holds; empty: there is no such secret, and who
// leads next makes one. Errors: as of EnsureMasterKey.
kube::Request ReadMasterKey(const MasterKeyPlace& place);
Result<std::string> MasterKeyIn(kube::CallResult result, const MasterKeyPlace& place);

// Somebody may have deleted the secret whose key, `held`, this leader works with: pods that run
// were made with it, and are not heard by whoever leads with another. Makes the secret again where
// it is gone. Errors: as of EnsureMasterKey; kStale (it holds another key).
Status PutBackMasterKey(kube::ApiCaller* api, const MasterKeyPlace& place, const std::string& held);

// Whether the key that was found is the one that is held. Errors: kStale (it is not).
Status CompareMasterKey(const std::string& found,
                        const std::string& held,
                        const MasterKeyPlace& place);

}  // namespace lockstep::control
