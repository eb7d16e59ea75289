#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/kube/request.h"

namespace lockstep::control {

// Questions for the API server that it answers as long as this process may read what it follows.
// Nothing else tells when that ends: a watch that was let in goes on for minutes, and who has
// nothing to do asks for nothing. `where`: the namespace whose jobs are served; empty: all.
std::vector<kube::Request> ProbeRights(const std::string& where);

// Judges the answers. Errors: kInvalidArgument (it may not, with the server's words), kUnavailable
// (no answer: nothing is known).
Status JudgeRights(std::vector<kube::CallResult> answers);

}  // namespace lockstep::control
