#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/time.h"
#include "operator/api/job/job_id.h"

namespace lockstep::control {

// How often a status that somebody else has overwritten is put back: at once the first time, then
// ever more slowly, as long as the other writer insists. Who stops is forgotten after a while.
// Thread: one.
class PutBackPace {
 public:
  // When it may be put back; null: now.
  std::optional<TimePoint> NotBefore(const JobId& key, TimePoint now) const;

  // It was put back. Returns whether that is the first time, so that it is said once.
  bool Note(const JobId& key, TimePoint now);

  // The job is gone.
  void Forget(const JobId& key) { jobs_.erase(key); }

 private:
  struct Row {
    int64_t count = 0;  // in a row
    TimePoint last{};
  };

  std::map<JobId, Row> jobs_;
};

}  // namespace lockstep::control
