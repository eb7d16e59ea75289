#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "operator/replay/csv_table.h"
#include "operator/replay/placement_policy.h"
#include "operator/scheduler/nodes/packing_score.h"

namespace lockstep::control {

// Nodes, and pods that want to run on them. Source of the form: Alibaba's cluster-trace-gpu-v2023
// ("openb").
struct OpenbTrace {
  std::vector<std::pair<std::string, PackRoom>> nodes;
  std::vector<PackRequest> pods;
  int64_t device_milli_total = 0;  // of all nodes

  // Errors: those of CsvTable; no GPU in any node, or asked for by any pod.
  static Result<OpenbTrace> FromTables(const CsvTable& nodes, const CsvTable& pods);
};

// What came of one order of the pods.
struct OpenbRun {
  uint64_t seed = 0;
  int64_t pod_count = 0;
  int64_t failed_count = 0;
  int64_t allocated_milli = 0;
};

// Places pods one at a time, in an order drawn from `seed`; those that fit nowhere are dropped, and
// none ever ends or moves. First pods of the trace are drawn and added until all together ask for
// `tune` times the GPUs that there are. Precondition (checked): every node takes what it is given.
OpenbRun ReplayOpenb(const OpenbTrace& trace, uint64_t seed, double tune, PlacementPolicy* policy);

}  // namespace lockstep::control
