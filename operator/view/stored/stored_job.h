#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/item.h"

namespace lockstep::control {

// A TrainingJob as an API server keeps it.
struct StoredJob {
  // Complete only if `problem` is empty. Of one with places the deadline is always that with which
  // it was read last (GangOrigin): it holds for as long as nothing else can be read.
  TrainingJob job;
  std::string problem;             // why it cannot be read; for people
  bool is_newer = false;           // a newer version may read it (DecodedJob)
  bool is_status_foreign = false;  // others wrote in the status what we never read back
  WallTime created{};              // jobs are served in this order
  bool is_deleting = false;
  std::vector<std::string> finalizers{};  // who keeps it then

  friend bool operator==(const StoredJob&, const StoredJob&) = default;
};

// Reads what the API server sent. What cannot be read is a problem of the job. A manifest of a
// megabyte takes half a second: the thread of the watch has it, the controller's does not.
// Errors: those of kube::DecodeRaw.
Result<kube::Item<StoredJob>> DecodeStoredJob(std::string_view json);

// Whether the job has no place and wants one, now or after a pause.
bool WantsPlace(const StoredJob& stored);

// Whether the change gave something up that others may have waited for, be it a place in the queue,
// a queue's quota or a priority.
// Null: there was, or is, no job.
bool FreesRoom(const StoredJob* before, const StoredJob* after);

// The object that replaces the job's status if the stored one still has this version.
std::string StatusBody(const TrainingJob& job, const std::string& version);

}  // namespace lockstep::control
