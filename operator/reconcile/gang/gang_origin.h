#pragma once

#include <cstddef>
#include <string>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// Of a revision, which is hexadecimal. Choice: edits of one job never meet by chance.
inline constexpr std::size_t kRevisionDigits = 16;

// Equal for manifests whose pods are interchangeable within a gang: strategy, training, of each
// role all but the number of its pods and its restart policy, what `recovery` tells pods, their
// priority class and how they are bound.
std::string RevisionOf(const TrainingJobSpec& spec);

// As it was computed when the job was read, else now.
std::string RevisionOf(const TrainingJob& job);

// The origin of a gang that is placed now.
GangOrigin OriginNow(const TrainingJob& job, const PodSettings& settings);

// Whether pods made now would differ from those that the gang was born with, or would have their
// places of another queue's share.
bool IsOutdated(const TrainingJob& job, const GangOrigin& origin);

}  // namespace lockstep::control
