#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operator/api/job/training_job.h"

namespace lockstep::control {

// The cells of `kubectl get`, which cannot format what it finds: "-" where there is nothing to
// show.
struct TableCells {
  std::string step = "-";    // "41200/90000"; of a program that does not say how many, "41200"
  std::string loss = "-";    // "1.923": four digits
  std::string eta = "-";     // "2h10m", of a job that runs
  std::string queue = "-";   // "vision", of one that waits in line "vision #2"
  std::string reason = "-";  // the status's own, cut to fit a line of 120 columns

  friend bool operator==(const TableCells&, const TableCells&) = default;
};

// What tables, `kubectl scale` and autoscalers read of a job's status. Follows from the rest, so it
// is written with every status and never read back.
struct DerivedStatus {
  std::string_view state;     // see StateWord (conditions.h)
  std::string ready;          // "2/3": pods that run or are done, of all placed, or else asked for
  int64_t restart_count = 0;  // over all causes
  std::string reason;  // a clause that says why the job does not run as asked; empty where it does
  int64_t replicas = 0;  // worker pods that exist or are on their way
  std::string selector;  // finds the job's worker pods
  TableCells cells;

  friend bool operator==(const DerivedStatus&, const DerivedStatus&) = default;
};

DerivedStatus DeriveStatus(const TrainingJob& job);

// Restarts over all causes.
int64_t TotalRestarts(const TrainingJobStatus& status);

}  // namespace lockstep::control
