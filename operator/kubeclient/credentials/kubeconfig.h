#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/kubeclient/credentials/api_access.h"

namespace lockstep::control {

// Merges kubeconfig files as kubectl does: of each cluster, user and context the first that has its
// name counts, and the first current-context; relative paths are relative to the file they stand
// in. Files that do not exist are skipped where several are named. `context` picks a context;
// empty: the current one.
//
// Understood: server, certificate-authority[-data], tls-server-name, insecure-skip-tls-verify;
// client-certificate[-data], client-key[-data], token, tokenFile, username, password, as, as-uid,
// as-groups, as-user-extra, exec; namespace. Not supported, and said so instead of ignored:
// proxy-url, auth-provider (which Kubernetes removed in 1.26), and plug-ins that need a terminal.
// Errors: kNotFound (no file, no such context, cluster or user), kInvalidArgument, each with the
// file and the field, and never with a value of a user's entry.
Result<ApiAccess> ReadKubeconfig(const std::vector<std::string>& paths, const std::string& context);

}  // namespace lockstep::control
