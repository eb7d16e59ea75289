#include "operator/cli/pods/pod_ports.h"

#include <charconv>

#include "common/contract/environment/environment.h"
#include "common/contract/status/exit_code.h"
#include "operator/api/job/job_topology.h"
#include "operator/reconcile/pods/pod.h"

namespace lockstep::control {

std::vector<ListenPlace> PortsOfPod(const TrainingJob& job,
                                    const Addressing& addressing,
                                    const TaskId& task) {
  const JobTopology topology = TopologyOf(job, addressing);
  // TensorFlow's server and torch's store bind all addresses; ours bind their own.
  const bool is_everywhere = !job.spec.training.has_value();
  std::vector<ListenPlace> places;
  for (int local_rank = 0; local_rank < ProcessesOf(topology, task.role); ++local_rank) {
    const HostPort mesh = MeshAddress(topology, {task, local_rank});
    places.push_back({mesh.host, mesh.port, is_everywhere});
  }
  const RoleSpec* const role = job.FindRole(task.role);
  if (role != nullptr && IsSupervised(job, *role)) {
    places.push_back({HostOf(topology, task), StatusPortOf(addressing)});
  }
  if (is_everywhere && FirstRankOf(topology, task) == 0) {
    const HostPort master = MasterAddress(topology);
    places.push_back({master.host, master.port, is_everywhere});
    const HostPort horovod = HorovodAddress(topology);
    places.push_back({horovod.host, horovod.port});
  }
  return places;
}

int StatusPortOf(const kube::Pod& pod) {
  const auto& environment = pod.spec.container.env;
  const auto told = environment.find(env::kStatusPort);
  int port = kStatusPort;
  if (told != environment.end()) {
    std::from_chars(told->second.data(), told->second.data() + told->second.size(), port);
  }
  return port;
}

bool HasFoundItsPortTaken(const kube::Pod& pod) {
  const auto& end = pod.status.termination;
  return end &&
         ClassifyExit(end->exit_code, end->signal, end->reason).cause == ExitCause::kPortTaken;
}

}  // namespace lockstep::control
