#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// How the pods of a gang stand to each other, by labels of nodes; empty: as they come.
struct GangSpread {
  std::string required;  // all of them in one domain of this label
  std::string apart;     // no two of them in one domain of this label

  friend bool operator==(const GangSpread&, const GangSpread&) = default;
};

// What scheduling.topology.required, and what the templates require of other pods, come to for the
// whole gang. A gang can keep a rule that is the same in the templates of all its roles, and that
// is about all its pods:
//
//   podAntiAffinity  no two pods in one domain: with kubernetes.io/hostname one pod a node
//   podAffinity      all pods in one domain: as scheduling.topology.required
//
// Pods of others that the same labels select are between the user and kube-scheduler, which sees
// the rule in the pods.
// Errors: appended to `errors`, unless that is null: each rule that the gang cannot keep, by its
// path. What is returned is sound where none is.
GangSpread FindGangSpread(const TrainingJob& job, std::vector<Error>* errors = nullptr);

}  // namespace lockstep::control
