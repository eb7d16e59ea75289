#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/convert/launch_command.h"
#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// How many processes Kubeflow's operator told torchrun to start in each pod, by
// PET_NPROC_PER_NODE.
struct TorchCount {
  std::string text;      // a number, "auto", "gpu", "cpu"
  std::string field;     // of the foreign manifest
  bool is_said = false;  // by the manifest; else it is the operator's default
};

// Whether the command starts torchrun, or may: launchers that call it, and programs whose text the
// manifest does not have.
bool MayStartTorchrun(const std::vector<std::string>& program);

// How many processes a torchrun that the command is seen to start, or `tune run`, is told to start;
// empty: its options do not say it.
std::string CountOnCommandLine(const std::vector<std::string>& program);

// A pod of PyTorch runs its command once, as under Kubeflow's operator, and torchrun in it finds
// the job's pods by PET_*, which the runtime sets. Writes into `role` how many ranks that makes
// where the manifest says it, and into the pod's variables what torchrun is to count itself. Errors
// are references $(PET_…), which Kubernetes cannot replace here, and counts that torchrun refuses.
void SetTorchProcesses(const LaunchCommand& command,
                       const TorchCount& per_pod,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion);

// The same of a job whose operator told torchrun nothing: it stays in its own pod.
void KeepTorchrunAlone(const LaunchCommand& command,
                       ConvertedPod* pod,
                       Json* role,
                       Conversion* conversion);

// How many ranks the pods of `role` are, if it is as these left it.
int64_t RanksOf(const Json& role, const ConvertedPod& pod);

}  // namespace lockstep::control
