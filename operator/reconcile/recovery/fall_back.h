#pragma once

#include <cstdint>

#include "common/contract/status/status_document.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// Whether a report is of the newest meeting: a pod may answer with what its processes told it
// before they heard of a loss. True where ranks do not meet while they train.
bool HasMetSince(const StatusDocument& document,
                 const TrainingJobStatus& status,
                 Strategy strategy);

// Whether a report, made at `reported_at`, may say that training stands at an earlier step than
// `known`: a pod was put in place since that was known, and this process HasMetSince and holds a
// state. Where ranks do not meet while they train, that
// pod is the process's own. Any other report that lies behind is only late.
bool MayFallBack(const JobProgress& known,
                 const StatusDocument& document,
                 WallTime reported_at,
                 const TrainingJobStatus& status,
                 Strategy strategy);

// Whether training went on from an earlier step than it had reached, and not only from one step
// before, which is what a survivor may lack of what a lost rank had done. `document` is of a
// process that MayFallBack.
bool HasFallenBack(const JobProgress& known, const StatusDocument& document);

// How many steps, as far as was heard of them, have to be taken again then; 0 unless it
// HasFallenBack.
int64_t StepsToRepeat(const JobProgress& known, const StatusDocument& document);

// The newest checkpoint that is left then: none that is newer than the state taken up.
int64_t CheckpointLeft(const JobProgress& known, const StatusDocument& document);

// Says that training went on from an earlier step than it had reached, from which to which, and
// why. `known` is what the status says. Says nothing unless it HasFallenBack.
void TellOfFallBack(const JobProgress& known,
                    const StatusDocument& document,
                    DecisionBuilder* builder);

// Whether each rank of the job trains a model of its own: strategy Independent, built in.
bool HasOwnModels(const DecisionBuilder& builder);

// Where it HasOwnModels, takes over how far the model of each rank is, adds the steps that one
// which a new process took up earlier has to take again, and says so. The checkpoint that is left
// to such a model is none that is newer than the state taken up. Otherwise, or before there is any
// progress, does nothing.
void NoteModels(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
