#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/convert/conversion.h"
#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// Whether mpirun or horovodrun starts the program.
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

// The same of the roles of a job without slots. Whether mpirun or horovodrun starts one.
bool NoteMpiLaunches(const std::vector<ConvertedReplica>& roles, Conversion* conversion);

}  // namespace lockstep::control
