#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/json/json.h"
#include "operator/api/job/kueue_admission.h"

namespace lockstep::control {

// The Workload of a job's name, by which Kueue deals with the job.
struct WorkloadSight {
  std::string uid;
  std::string version;   // of the object: a write says what it has seen
  std::string revision;  // of what it asks for; see WorkloadRevision
  bool is_ours = false;  // it belongs to this very job
  bool is_deleting = false;
  Json conditions;  // as they are stored; may be null
  // What admission says, once quota is reserved; null before.
  std::optional<KueueAdmission> admission;
  std::string problem;  // why a gang cannot heed that; empty: it can

  friend bool operator==(const WorkloadSight&, const WorkloadSight&) = default;
};

// What is seen of Kueue.
struct KueueSight {
  bool is_followed = false;               // its Workloads have been listed
  int64_t priority = 0;                   // of the job's PriorityClass
  std::string missing_class;              // why there is none, in words; empty: there is
  std::optional<WorkloadSight> workload;  // of the job; null: there is none
  std::string refusal;  // why the server did not take what was written of it last; may be empty

  friend bool operator==(const KueueSight&, const KueueSight&) = default;
};

}  // namespace lockstep::control
