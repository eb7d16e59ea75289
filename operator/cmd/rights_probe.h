#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// Questions for the API server that it answers as long as this process may read what it follows.
// Nothing else tells when that ends: a watch that was let in goes on for minutes, and who has
// nothing to do asks for nothing. `where`: the namespace whose jobs are served; empty: all.
std::vector<kube::Request> ProbeRights(const std::string& where);

// The same for what is read object by object in each of several namespaces that are served, where a
// list of all of them needs other rights: of a job of a name that nobody has. Of the first 64.
std::vector<kube::Request> ProbeNamespaces(const std::vector<std::string>& namespaces);

// Judges the answers. Errors: kInvalidArgument (it may not, with the server's words), kUnavailable
// (no answer: nothing is known).
Status JudgeRights(std::vector<kube::CallResult> answers);

}  // namespace lockstep::control
