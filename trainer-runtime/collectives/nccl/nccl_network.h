#pragma once

#include <string>

#include "common/contract/environment/environment.h"

namespace lockstep::runtime {

// Where it is seen which network cards there are, and which of them this process uses.
struct NetworkPlaces {
  std::string cards = "/sys/class/infiniband";  // of the node: containers see all of it
  std::string descriptors = "/proc/self/fd";
};

// The InfiniBand and RoCE cards of this node with a port that is up, where this process has opened
// none of them: "mlx5_0 (InfiniBand), mlx5_1 (Ethernet)". Empty: there are none, or it has. NCCL
// opens those that it will use as it joins, and keeps them open (NET/IB); without it goes by TCP
// (NET/Socket), and tells nobody but its own log. What cannot be read counts as no card. Thread:
// any. Source: ncclIbInitDevices in NCCL's transport/net_ib/init.cc.
std::string UnusedCards(const NetworkPlaces& places = {});

// Whether the variables leave the choice of a network to NCCL: no NCCL_NET, NCCL_NET_PLUGIN or
// NCCL_IB_DISABLE.
bool NcclChoosesNetwork(const EnvironmentMap& variables);

}  // namespace lockstep::runtime
