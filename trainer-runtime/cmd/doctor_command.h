#pragma once

namespace lockstep::runtime {

// Prints what this container has for summing gradients on GPUs, and tries it: driver, GPU, NCCL and
// its features, an identity, a communicator of one rank. Returns the process's exit code: 0 when
// what is there works, also where nothing is; kExitInternal when something is there and does not.
int DoctorCommand();

}  // namespace lockstep::runtime
