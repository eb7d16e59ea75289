#pragma once

#include <string>
#include <vector>

namespace lockstep::control {

// Whether a text, such as a shell's script, seems to start one of the launchers that
// ReadLaunchCommand knows.
bool MentionsLauncher(const std::string& text);

// The variables of mpirun's processes that a text reads: "OMPI_COMM_WORLD_RANK", each once.
std::vector<std::string> VariablesOfMpirun(const std::string& text);

// Likewise those that torchrun reads in the place of options: "PET_NNODES".
std::vector<std::string> VariablesOfTorchrun(const std::string& text);

}  // namespace lockstep::control
