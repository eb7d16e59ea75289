#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/controller/errand/cluster_notes.h"
#include "operator/controller/errand/errand.h"
#include "operator/controller/errand/namespace_levels.h"
#include "operator/controller/look/look.h"
#include "operator/controller/look/pod_quota.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Where it takes place; all outlive it.
struct PermissionLookParts {
  ClusterView* view = nullptr;
  ClusterNotes* notes = nullptr;
  const PodSettings* settings = nullptr;
  NamespaceLevels* levels = nullptr;
  TimePoint now{};
};

// Asks the API server whether it would create the pods of a waiting job, before others go for it:
// one pod of each role is created in a dry run, and the namespace's ResourceQuotas have to hold all
// of them together. The answer enters the view.
class PermissionLook final : public Errand {
 public:
  // `victims`: jobs that would go. What their pods hold of the quotas counts as free.
  PermissionLook(const PermissionLookParts& parts, TrainingJob job, std::vector<JobId> victims);

  PermissionLook(const PermissionLook&) = delete;
  PermissionLook& operator=(const PermissionLook&) = delete;

  std::vector<ErrandCall> Next() override;
  std::vector<Status> TakeAnswers() override;

 private:
  // One role's pods.
  struct Part {
    TaskId first;
    int64_t count = 0;
    Json manifest = Json();
  };

  std::vector<ErrandCall> Surroundings();
  std::vector<ErrandCall> DryRuns();
  void ReadDryRun(const Part& part, kube::CallResult result);
  QuotaAmounts FreedByVictims() const;
  QuotaAmounts PromisedToOthers() const;
  PodPermission Judge() const;

  PermissionLookParts parts_;
  PodSettings settings_;  // with the level that the namespace enforces
  const TrainingJob job_;
  const JobId key_;
  const std::vector<JobId> victims_;
  const WallTime begun_;
  Listing quota_list_;
  std::vector<ResourceQuota> quotas_;
  bool has_read_quotas_ = false;
  bool has_asked_level_ = false;
  bool has_begun_dry_runs_ = false;
  std::vector<Part> pods_;
  QuotaAmounts asked_;         // by all pods together
  std::string refusal_;        // why the pods may not be created
  std::string quota_refusal_;  // the same, of a quota that is full
  std::string failure_;        // why nothing can be said
};

}  // namespace lockstep::control
