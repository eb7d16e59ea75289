#include "trainer-runtime/session/session_options.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/contract/environment/topology.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {
namespace {

// A silent peer has missed at least so many heartbeats, however short a silence is asked for: one
// or two may be late on a busy host. Choice.
constexpr int kHeartbeatsMissed = 6;

// What the manifest is refused by has to be what the collectives hold.
static_assert(kTrainerRanksMax == kWorldSizeMax);

}  // namespace

Result<SessionOptions> MakeSessionOptions(const WorkerEnvironment& environment,
                                          std::string job_key) {
  SessionOptions options;
  options.meeting_timeout = environment.rendezvous_timeout;
  MeshOptions& mesh = options.mesh;
  mesh.identity = {environment.job_uid,
                   environment.attempt,
                   environment.rank.value_or(0),
                   environment.world_size,
                   environment.incarnation};
  mesh.initial_epoch = environment.epoch;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<HostPort> addresses,
                            RankAddresses(environment.tf_config));
  for (const HostPort& address : addresses) {
    mesh.addresses.push_back(FormatHostPort(address));
  }
  if (addresses.empty()) {  // one rank: TF_CONFIG is absent
    mesh.addresses.push_back(FormatHostPort({environment.host, kMeshPort}));
  }
  mesh.bind_address = environment.bind_address;
  mesh.port = addresses.empty() ? kMeshPort
                                : addresses.at(static_cast<std::size_t>(mesh.identity.rank)).port;
  mesh.job_key = std::move(job_key);
  mesh.silent_after = environment.silent_after;
  mesh.heartbeat = std::min<Duration>(mesh.heartbeat, environment.silent_after / kHeartbeatsMissed);
  return options;
}

}  // namespace lockstep::runtime
