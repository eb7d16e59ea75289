#pragma once

#include <string>

#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control {

// This machine as the only node of a local cluster: cores this process may use, memory, NVIDIA
// GPUs. Container limits (cgroup v2) count. `root` is "" on a real machine and a folder with files
// of the same names in tests; `core_count` and `name` come from the caller.
kube::Node DescribeMachine(const std::string& root, const std::string& name, int core_count);

// Lets this process, and those that it starts, hold as many descriptors as they may: pods take
// several of it each. Source: getrlimit(2).
void RaiseDescriptorLimit();

// The machine's host name.
std::string HostName();

}  // namespace lockstep::control
