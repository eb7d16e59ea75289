#pragma once

#include <cstdint>
#include <string>

#include "operator/scheduler/round.h"

namespace lockstep::control {

// For tests of rounds.

// So many seconds after some moment.
WallTime AtSecond(int64_t seconds);

// Waits since that second: `count` pods "w-0", ... that ask for so many GPUs each.
GangRequest GpuGang(const std::string& name, int count, int64_t gpus, int64_t since_second);

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

}  // namespace lockstep::control
