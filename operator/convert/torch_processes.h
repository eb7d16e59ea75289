#pragma once

#include <cstdint>
#include <string>

#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// How many processes a pod of PyTorch runs, written into `role`: as the launcher on its command
// line was told, else, where that is torchrun, `per_pod` ("", a number, "auto", "gpu", "cpu"),
// which stands at `field`. accelerate and deepspeed that are told nothing run one for each device
// that PyTorch finds, and a pod without a launcher runs one; so does one of accelerate's that
// LaunchCommand says has one.
void SetTorchProcesses(const LaunchCommand& command,
                       const std::string& per_pod,
                       const std::string& field,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion);

// How many ranks the pods of `role` are, if it is as SetTorchProcesses left it.
int64_t RanksOf(const Json& role, const ConvertedPod& pod);

// Says so where the launcher trained on other machines than the job's `pods` together, or may not
// any more lose and gain some. `alone`: where it trained if it was told of no other machine.
inline constexpr const char* kInEachPod = "in each pod for itself";
void NoteMachineCount(const LaunchCommand& command,
                      const ConvertedPod& pod,
                      int64_t pods,
                      Conversion* conversion,
                      const std::string& alone = kInEachPod);

// Says so where the launcher was told of another number in all than the job's `ranks`.
void NoteRankCount(const LaunchCommand& command,
                   int64_t ranks,
                   const ConvertedPod& pod,
                   Conversion* conversion);

}  // namespace lockstep::control
