#pragma once

#include <string>
#include <vector>

#include "operator/controller/errand/cluster_notes.h"
#include "operator/controller/errand/errand.h"
#include "operator/controller/write/publisher.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Where statuses are written; all outlive the write.
struct StatusWriteParts {
  ClusterView* view = nullptr;
  ClusterNotes* notes = nullptr;
  Publisher* publisher = nullptr;
};

// Writes the status that was decided for a job, if it has not been written since. Before that, pods
// that the new status gives up without their having run are asked for: a view that is out of date
// gives nobody up.
class StatusWrite final : public Errand {
 public:
  // The job is as the view has it now, but for its status. Reserves what that holds; the
  // reservation ends with the write, or when a look has found out what became of it. `job` outlives
  // the write.
  StatusWrite(const StatusWriteParts& parts, const TrainingJob& job);

  std::vector<ErrandCall> Next() override;
  std::vector<Status> TakeAnswers() override;

 private:
  enum class Stage { kConfirming, kWriting, kOver };

  std::vector<std::string> PodsGivenUp() const;
  Status CheckGivenUp() const;
  ErrandCall Writing();
  Status Read(kube::CallResult result);
  void Note(Status status);

  StatusWriteParts parts_;
  const TrainingJob& job_;
  const JobId key_;
  std::string version_;  // of the job that was decided on; empty: it is gone
  TrainingJobStatus before_;
  std::vector<std::string> given_up_;
  Stage stage_ = Stage::kConfirming;
  Status answer_ = OkStatus();
};

}  // namespace lockstep::control
