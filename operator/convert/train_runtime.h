#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// What the runtime of a TrainJob says of its pods. Of one that is not in the file nothing is known
// but what its name tells.
struct TrainRuntime {
  ConvertedPod pod;    // that trains; with an empty container where nothing is known
  std::string kind{};  // of its mlPolicy: "torch", "mpi", "flux"; empty: none of these
  std::optional<int64_t> nodes{};
  std::string per_pod{};        // numProcPerNode
  std::string per_pod_field{};  // where that stands
  bool is_known = false;
};

// Reads the runtime that `ref`, the job's runtimeRef, names, where the options have it.
TrainRuntime ReadTrainRuntime(ForeignObject ref, const ConversionOptions& options);

}  // namespace lockstep::control
