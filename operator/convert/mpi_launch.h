#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/convert/conversion.h"
#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// Whether the program is one of MPI or Horovod, by its launcher.
bool IsMpiLaunch(const LaunchCommand& command);

// The slots of mpirun in a pod, where the kind of job has them.
struct MpiSlots {
  std::optional<int64_t> count;  // empty: the manifest does not say, which is 1
  std::string field;
};

// How many processes a pod runs, written into `role`: as many as the command starts in each, else
// as it has slots. Without slots (null), mpirun knows of its own pod alone: as many as it starts.
void SetMpiProcesses(const LaunchCommand& command,
                     const MpiSlots* slots,
                     ConvertedPod* pod,
                     Json* role,
                     Conversion* conversion);

// What is to be said of a program that mpirun or horovodrun would start, in a job of `ranks`,
// `per_pod` in each of its pods: that MPI itself is gone, and where another count was asked for.
// `has_slots`: as for SetMpiProcesses.
void NoteMpiLaunch(const LaunchCommand& command,
                   int64_t ranks,
                   int64_t per_pod,
                   bool has_slots,
                   Conversion* conversion);

// Says so where mpirun or horovodrun would start the launcher behind it another number of times
// than the `pods` that it knows of are, one in each. `slots`: how many it starts in a pod if it is
// told nothing.
void NoteOuterCount(const LaunchCommand& command,
                    int64_t pods,
                    int64_t slots,
                    Conversion* conversion);

}  // namespace lockstep::control
