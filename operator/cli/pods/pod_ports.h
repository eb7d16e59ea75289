#pragma once

#include <vector>

#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/local/port_use.h"

namespace lockstep::control {

// Where the processes of a task's pod are to listen on this machine: each for its peers, the
// runtime for its status, and in rank 0's pod of a command, what its program is told to serve.
// Precondition: the task is in the job.
std::vector<ListenPlace> PortsOfPod(const TrainingJob& job,
                                    const Addressing& addressing,
                                    const TaskId& task);

// Where the pod was told to serve its status.
int StatusPortOf(const kube::Pod& pod);

// Whether it has ended as another process listened on a port of its own.
bool HasFoundItsPortTaken(const kube::Pod& pod);

}  // namespace lockstep::control
