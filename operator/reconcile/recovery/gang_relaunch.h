#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A gang of a command that has lost a program starts anew without new pods: all programs end, and
// when all have, all start. The pods with what they have mounted, pulled and written stay.

// Starts the whole gang anew: within its pods, where they are all there and say that they can do
// it, what has failed are programs and not pods, and the gang does not break soon after its start
// again, for then what is left in the pods may be the cause. Else with new pods (RestartGang).
// Either way one restart is counted, for the cause of OriginOf(failures), and the epoch rises.
// Precondition: there is a failure, and its budget is spent.
void StartGangAnew(const GangView& view,
                   const std::vector<Failure>& failures,
                   DecisionBuilder* builder);

// Of a relaunch that is under way, time in which nobody told pods anything does not count, as when
// no operator led, or it was halted: they had nothing to follow. To be called before failures are
// looked for.
void NoteAbsence(DecisionBuilder* builder);

// Goes on with a relaunch that is under way: tells pods what they have not done yet. Returns
// whether it goes on.
bool ContinueRelaunch(const GangView& view, DecisionBuilder* builder);

// In the turn that ends the job: pods that wait for a relaunch are told to end, each as its program
// did.
void ReleaseHeld(const GangView& view, DecisionBuilder* builder);

// Takes in what pods say of relaunches that the status does not know, as when somebody wiped it.
void LearnRelaunches(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
