#pragma once

#include <map>
#include <string>
#include <vector>

#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// What is written of the variables of the pod's container, for InlineReferences: those whose values
// are elsewhere, or refer to such, are left out.
std::map<std::string, std::string> WrittenVariables(const ConvertedPod& pod);

// The words of the program for `worker`, which need not have the variables of `launcher`, where
// Kubernetes read them: $(NAME) is replaced by what the launcher has, or noted where the file does
// not say that.
std::vector<std::string> ProgramForWorker(const LaunchCommand& command,
                                          const ConvertedPod& launcher,
                                          const ConvertedPod& worker,
                                          Conversion* conversion);

// The launcher gives every rank all variables of its pod: adds those that the file names to what
// `command` hands on. Noted are those that it does not name.
void HandOnAll(const ConvertedPod& launcher, LaunchCommand* command, Conversion* conversion);

// Gives the container of `pod` the variables that the launcher of `command` would have given every
// rank, over those of its own, which are noted as replaced. `launcher` is where the command stands,
// and may be `pod`. References in their values
// are replaced by what the launcher has, as the worker may not have it. Noted are those whose
// values the file does not say.
void SetVariables(const LaunchCommand& command,
                  const ConvertedPod& launcher,
                  ConvertedPod* pod,
                  Conversion* conversion);

}  // namespace lockstep::control
