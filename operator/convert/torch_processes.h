#pragma once

#include <string>
#include <vector>

#include "operator/convert/pod_conversion.h"

namespace lockstep::control {

// How many processes Kubeflow's operator told torchrun to start in each pod, by
// PET_NPROC_PER_NODE.
struct TorchCount {
  std::string text;               // a number, "auto", "gpu", "cpu"
  std::string field;              // of the foreign manifest
  bool is_said = false;           // by the manifest; else it is the operator's default
  bool is_in_world_size = false;  // which was the number of pods times it
};

// A command as PyTorch's launchers see it.
struct TorchProgram {
  bool has_torchrun = false;
  bool has_composer = false;  // MosaicML's, which goes by variables of its ranks and not by PET_*
  // It starts torchrun, or may: launchers that call it, and programs that the manifest does not
  // have.
  bool may_start_torchrun = false;
  bool hands_on_rank = false;  // RANK or WORLD_SIZE, which counted pods: "--node_rank=$RANK"
  std::string count{};         // of processes that its options say; empty: they do not
};

TorchProgram ReadTorchProgram(const std::vector<std::string>& command);

// A pod of PyTorch runs its command once, as under Kubeflow's operator, and torchrun in it finds
// the job's pods by PET_*, which the runtime sets. Writes into the role how many ranks that makes
// where the manifest says it, and into the pod's variables what torchrun is to count itself. Errors
// are references $(PET_…), which Kubernetes cannot replace here, and counts that torchrun refuses.
void SetTorchProcesses(const TorchCount& per_pod,
                       ConvertedReplica* replica,
                       Conversion* conversion);

// The same of a job whose operator told torchrun nothing: it stays in its own pod.
void KeepTorchrunAlone(ConvertedReplica* replica, Conversion* conversion);

}  // namespace lockstep::control
