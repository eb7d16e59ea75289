#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// Whether the program is a script or a shell's whose text the manifest does not have, so that it
// may start torchrun unseen.
bool MayStartUnseen(const std::vector<std::string>& program);

// Says so of a program that MayStartUnseen: Kubeflow's operator told a torchrun in it of the
// others, by variables, and nobody does now. `pods`: of the job. True if it said so.
bool NoteUnseenLauncher(const LaunchCommand& command, int64_t pods, Conversion* conversion);

// Says of variables that Kubeflow's operator sets, and that the program's words or the container's
// variables name, what they are here: PET_NODE_RANK and its like nobody sets, and $(RANK) and
// $(WORLD_SIZE) counted pods. `processes`: of each pod; `pods`: of the job.
void NoteVariablesOfOperator(const LaunchCommand& command,
                             const ConvertedPod& pod,
                             int64_t processes,
                             int64_t pods,
                             Conversion* conversion);

}  // namespace lockstep::control
