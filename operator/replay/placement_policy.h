#pragma once

#include <memory>
#include <optional>
#include <string>

#include "operator/scheduler/nodes/packing_index.h"
#include "operator/scheduler/nodes/packing_score.h"

namespace lockstep::control {

// Decides where pods go that come one at a time. Each sees the pods that have come, none that are
// to come.
class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;

  virtual void SetNode(const std::string& name, const PackRoom& room) = 0;
  // A pod has come. Empty where it fits nowhere.
  virtual std::optional<PackChoice> Choose(const PackRequest& request) = 0;
};

// What Lockstep's scheduler does: PackingScore.
std::unique_ptr<PlacementPolicy> MakeWorthPolicy();

// What is compared with it, as published with the trace (Weng et al., ATC 2023), their rounding
// and their order of ties included: least fragmentation gradient, here too from the pods that have
// come; and the node that has least left, cores and GPUs counting the same.
std::unique_ptr<PlacementPolicy> MakeFgdPolicy();
std::unique_ptr<PlacementPolicy> MakeBestFitPolicy();

}  // namespace lockstep::control
