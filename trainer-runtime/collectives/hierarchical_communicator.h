#pragma once

#include <memory>
#include <vector>

#include "common/base/io/unique_fd.h"
#include "trainer-runtime/collectives/communicator/communicator_front.h"

namespace lockstep::runtime {

// What a rank's part in a world of several hosts is made of.
struct HierarchyParts {
  std::vector<std::vector<int>> groups;       // as GroupByHost gives them
  std::unique_ptr<CommunicatorFront> within;  // over its host's ranks; null where it is alone there
  std::unique_ptr<CommunicatorFront> across;  // over the first ranks of hosts; null in others
  // [world_size], those that neither has. They carry nothing: their end is the death of a peer.
  std::vector<UniqueFd> spare_links;
};

// The backend for ranks on several hosts of which some share one: all-reduce runs within each host,
// then between their first ranks, then back, so that what a network carries does not grow with the
// ranks of a host.
//
// A failure on another host is heard through one's own host's first rank, which hears it when it
// calls; a mesh that aborts all ranks is what ends the wait for a first rank that never calls.
// Shapes: as CommunicatorOptions, of which rank, world size and epoch are used.
std::unique_ptr<Communicator> MakeHierarchicalCommunicator(const CommunicatorOptions& options,
                                                           HierarchyParts parts);

}  // namespace lockstep::runtime
