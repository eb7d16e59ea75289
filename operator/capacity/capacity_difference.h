#pragma once

#include <string>

#include "operator/api/job/training_job.h"
#include "operator/capacity/sight/provisioning_sight.h"

namespace lockstep::control {

// How an object of the ask that is open differs from what we made, for people: "is not as it was
// made: its spec.podSets[0].count is 1 in place of 2"; "was edited by somebody", where all that is
// compared is as it was. Empty: it does not. An answer to one that does is none to what the job
// asks for.
//
// Compared is what decides how much is asked for; that is done for an object that was never edited,
// too, which may have been put there in place of ours. All else is known by the generation, which
// the server raises with every change of what is not metadata or status: what the server adds by
// itself, or leaves out as it does not know it, is no edit.
// Precondition: job.status.provisioning has an ask that is open.
std::string DifferenceOfRequest(const CapacityObject& object, const TrainingJob& job);
std::string DifferenceOfTemplate(const CapacityObject& object,
                                 const TrainingJob& job,
                                 const RoleSpec& role);

}  // namespace lockstep::control
