#pragma once

#include <map>
#include <string>

#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// What is written of the variables of the pod's container, for InlineReferences: those whose values
// are elsewhere, or refer to such, are left out.
std::map<std::string, std::string> WrittenVariables(const ConvertedPod& pod);

// The launcher gives every rank all variables of its pod: adds those that the file names to what
// `command` gives. Noted are those that it does not name.
void HandOnAll(const ConvertedPod& launcher, LaunchCommand* command, Conversion* conversion);

// The container of `pod` runs the program of `command`, which stands in `launcher`, which may be
// `pod`, with the variables that the launcher would have given every rank, over those of its own,
// which are noted as replaced. $(NAME) in words and values is replaced by what the launcher has, as
// the worker may not have it; what the file does not say of that is noted.
void SetLaunched(const LaunchCommand& command,
                 const ConvertedPod& launcher,
                 ConvertedPod* pod,
                 Conversion* conversion);

}  // namespace lockstep::control
