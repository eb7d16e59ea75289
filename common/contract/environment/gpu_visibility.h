#pragma once

#include "common/json/enum_names.h"

namespace lockstep {

// Which of its pod's GPUs each process of a command sees.
enum class GpuVisibility {
  kAll,  // every process sees every GPU, in one order, as under torchrun, mpirun and srun
  kOne   // local rank r of n GPUs sees the GPU r mod n alone
};

inline constexpr EnumNames<GpuVisibility, 2> kGpuVisibilityNames = {{
    {GpuVisibility::kAll, "All"},
    {GpuVisibility::kOne, "One"},
}};

}  // namespace lockstep
