#pragma once

#include <optional>
#include <string>

#include "operator/reconcile/decision_builder.h"

namespace lockstep::control {

// Whether the job has had its places for as long as it may, by its own limit or its queue's: then
// it has failed, and is told by which. Else it is looked at again when it has.
bool HasRunTooLong(DecisionBuilder* builder);

// By which limit the job, which has one, has run too long.
std::string DescribeRunTimeLimit(const TrainingJob& job,
                                 const std::optional<RunTimeLimit>& of_queue);

// Writes down what the job ran until now, when it is suspended: its queue's limit counts that.
void NoteRunTime(DecisionBuilder* builder);

}  // namespace lockstep::control
