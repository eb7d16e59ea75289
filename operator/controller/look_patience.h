#pragma once

#include <cstdint>
#include <set>

#include "common/base/time.h"
#include "operator/api/job_id.h"

namespace lockstep::control {

// How long news of a job that is as expected may wait for the next look at it, so that a gang is
// looked at a few times on its way up, not once for each of its pods. Pure; thread: one.
class LookPatience {
 public:
  // The job has news. `comes_up`: its gang has its places and has not run yet.
  void Note(const JobId& key, bool comes_up);

  // Nothing is known of any job any more.
  void Clear() { coming_up_.clear(); }

  // `pods`: that the job has.
  Duration For(const JobId& key, int64_t pods) const;

 private:
  std::set<JobId> coming_up_;
};

}  // namespace lockstep::control
