#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operator/api/training_job.h"

namespace lockstep::control {

// What tables, `kubectl scale` and autoscalers read of a job's status. Follows from the rest, so it
// is written with every status and never read back.
struct DerivedStatus {
  std::string_view state;     // see StateWord (conditions.h)
  std::string ready;          // "2/3": pods that run or are done, of all placed, or else asked for
  int64_t restart_count = 0;  // over all causes
  std::string reason;  // a clause that says why the job does not run as asked; empty where it does
  int64_t replicas = 0;  // worker pods that exist or are on their way
  std::string selector;  // finds the job's worker pods

  friend bool operator==(const DerivedStatus&, const DerivedStatus&) = default;
};

DerivedStatus DeriveStatus(const TrainingJob& job);

}  // namespace lockstep::control
