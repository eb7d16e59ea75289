#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "operator/scheduler/round.h"

namespace lockstep::control {

// For tests of rounds.

// So many seconds after some moment.
WallTime AtSecond(int64_t seconds);

// Waits since that second: `count` pods "w-0", ... that ask for so many GPUs each.
GangRequest GpuGang(const std::string& name, int count, int64_t gpus, int64_t since_second);

// The same request, which runs so many seconds at most.
GangRequest Limited(GangRequest request, int64_t seconds);

// An amount of GPUs, as queues have it.
std::map<std::string, int64_t> OfGpus(int64_t count);

// A node of so many GPUs with labels {"rack": rack} unless that is empty.
SnapshotNode GpuNode(const std::string& name, int64_t gpus, const std::string& rack = "");

// A state with its memory and its clock: rounds are carried out as they come.
class FakeCluster {
 public:
  explicit FakeCluster(ClusterState::Options of_state = {}) : state(std::move(of_state)) {}

  // One round, carried out; what it said.
  std::string Step();

  ClusterState state;
  RoundMemory memory;
  RoundOptions options;
  WallTime now = AtSecond(1000);
};

// A gang of one pod runs on `node` from second 0 until second `stops_at`; 0: for good.
void AddRunning(const std::string& name,
                int64_t gpus,
                int64_t stops_at,
                FakeCluster* cluster,
                const std::string& node = "n1");

}  // namespace lockstep::control
