#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/scheduler/state/run_time_history.h"
#include "operator/view/stored/stored_job.h"

namespace lockstep::control {

// Of which kinds the job's runs are, the narrowest first: jobs of one namespace with one manifest
// and as many pods; those whose pods are of the same images, as many, and ask for the same. Equal
// kinds have equal names; nothing of the manifest can be read in them.
std::vector<std::string> KindsOf(const TrainingJob& job);

// Whether the gang that has its places, or had them last, was made from the manifest as it stands.
bool IsRunOfManifest(const TrainingJob& job);

// What can be learnt from the job: how long it ran from when it got its places until it succeeded.
// Null: nothing, as it has not, or not in one go: it was given up, suspended or went for another,
// and began anew, or from a checkpoint; or it was edited while it ran.
std::optional<EndedRun> RunOf(const StoredJob& stored);

}  // namespace lockstep::control
