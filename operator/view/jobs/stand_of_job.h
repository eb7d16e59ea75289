#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/time.h"
#include "operator/allocator/job_stand.h"
#include "operator/allocator/usage_ledger.h"
#include "operator/api/job/job_id.h"
#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"
#include "operator/view/stored/priority_classes.h"
#include "operator/view/stored/stored_job.h"

namespace lockstep::control {

// By which the job has its places, or is about to have them; null: it has none. `reserved` is the
// status on its way; null: none is.
const TrainingJobStatus* PlacedStatus(const TrainingJob& job, const TrainingJobStatus* reserved);

// What is known of the job makes it stand so. Null `stored`: there is no such job, and what is held
// under its name it holds no more. Null `reserved`: no status is on its way. Null `usage`: nothing
// is held.
struct StandInputs {
  const StoredJob* stored = nullptr;
  const TrainingJobStatus* reserved = nullptr;
  const JobUsage* usage = nullptr;
  PriorityTerms priority;  // of the class that counts for the gang
  // Since when the pods of `usage` that are unasked are to go, by uid; null: none is.
  const std::map<std::string, WallTime>* unasked_since = nullptr;
  std::optional<RunTimeLimit> run_time_limit{};  // of the queue that it counts in
  bool is_native_followed = false;               // PodGroups are seen
};

JobStand StandOf(const JobId& key, const StandInputs& inputs, WallTime now);

}  // namespace lockstep::control
