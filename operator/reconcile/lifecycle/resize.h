#pragma once

#include <string>
#include <string_view>

#include "operator/api/job/training_job.h"
#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// On a job: the generation of its manifest whose change of the gang's size may cost what was
// trained, or its place. A consent to one change is none to the next.
inline constexpr std::string_view kConsentAnnotation = "lockstep.dev/accept-progress-loss";

// Whether the gang keeps its size although the manifest asks for another: one of another size would
// begin at step 0, for want of checkpoints that outlive its pods, and nobody has accepted that.
// Nothing is lost with a gang that has not trained, nor with one that is given up anyway.
bool AwaitsConsent(const TrainingJob& job, const Observed& observed);

// Says in the condition Resized what would be lost and how to accept it. `job` is as the manifest
// has it; the builder's is as it is placed.
void AskForConsent(const TrainingJob& job, DecisionBuilder* builder);

// Why the gang keeps its size although the manifest asks for another: one of that size would not
// fit though no other job ran, so that nothing would run any more. Empty: it would, or somebody has
// accepted that, or the gang is given up anyway.
std::string WhySizeNeverFits(const TrainingJob& job, const Observed& observed);

// Says so in the condition Resized. `job` and builder as of AskForConsent.
void RefuseSize(const TrainingJob& job, const std::string& why, DecisionBuilder* builder);

// Takes back what AskForConsent or RefuseSize has said, if one has.
void NoteSizeIsHeeded(DecisionBuilder* builder);

}  // namespace lockstep::control
