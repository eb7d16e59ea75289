#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// The slots of mpirun in a pod, where the kind of job has them.
struct MpiSlots {
  std::optional<int64_t> count;  // empty: the manifest does not say, which is 1
  std::string field;
};

// How many processes a pod runs, written into the role: as many as the command starts in each, else
// as it has slots. Without slots (null), mpirun knows of its own pod alone: as many as it starts.
void SetMpiProcesses(const MpiSlots* slots, ConvertedReplica* replica, Conversion* conversion);

// What is to be said of roles whose program mpirun or horovodrun would start: that MPI itself is
// gone, and where another count was asked for. `has_slots`: as for SetMpiProcesses. Whether there
// is one.
bool NoteMpiLaunches(std::span<const ConvertedReplica> roles,
                     bool has_slots,
                     Conversion* conversion);

}  // namespace lockstep::control
