#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "operator/api/training_job.h"
#include "tests/sim/api_server.h"
#include "tests/sim/decoded.h"
#include "tests/sim/nodes.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// The job as the API server has it. Precondition (checked): it can be read.
TrainingJob DecodeJob(const Json& object);

// What must always hold, whatever happens. Keeps the first promise that was broken.
class Checks {
 public:
  Checks(SimContext* context,
         const ApiServer* server,
         const Nodes* nodes,
         const Processes* processes)
      : context_(context), server_(server), nodes_(nodes), processes_(processes) {}

  // A status write of the operator was accepted: null `before` is a status that was never written.
  void OnStatusWrite(const ObjectPtr& before, const ObjectPtr& after);

  // The operator has changed or removed an object other than a job: null `after` is a removal.
  void OnWrite(const ObjectPtr& before, const ObjectPtr& after);

  // A pod's process has come to an end that the operator did not ask for, or cannot be told from
  // one: a restart may be counted for it, once.
  void NoteCasualty(const std::string& pod_uid);

  // Looks at everything.
  void CheckWorld();

  // Something else that must hold.
  void Require(bool holds, const std::string& what);

  // Empty while all promises hold.
  const std::string& problem() const { return problem_; }

  int64_t status_writes() const { return status_writes_; }

  int64_t restarts() const { return restarts_; }

  int64_t rollbacks() const { return rollbacks_; }

 private:
  void CheckProgress(const TrainingJob& before, const TrainingJob& after);
  void CheckCounts(const TrainingJob& before, const TrainingJob& after);
  void CheckPlan(const TrainingJob& before, const TrainingJob& after);
  void CheckPauses(const TrainingJob& before, const TrainingJob& after);
  void CheckEnds(const TrainingJob& before, const TrainingJob& after);
  void CheckPods(const std::string& namespace_name, const TrainingJob& job);
  void CheckPartialGang(const TrainingJob& job, std::size_t bound, std::size_t left_over);
  bool HasSuffered(const std::string& pod_uid) const;
  bool IsNodeGood(const std::string& name) const;

  SimContext* context_;
  const ApiServer* server_;
  const Nodes* nodes_;
  const Processes* processes_;
  std::string problem_;
  std::set<std::string> casualties_;                // uids of pods
  std::map<std::string, TimePoint> partial_since_;  // by job uid
  int64_t status_writes_ = 0;
  int64_t restarts_ = 0;
  int64_t rollbacks_ = 0;
  int64_t checked_version_ = -1;
  TimePoint checked_at_{};
  mutable DecodedCache<TrainingJob> jobs_{DecodeJob};
};

}  // namespace lockstep::control::sim
