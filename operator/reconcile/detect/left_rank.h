#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/detect/failure.h"
#include "operator/reconcile/gang/gang_view.h"

namespace lockstep::control {

// A rank has *left* when its process has ended with exit code 0, nobody having asked it to. Whoever
// loses such a peer, or waits for it until its meeting runs out, ends with a code that is tried
// again; but no machine is at fault: the program of one rank is done before the others'. Another
// try would end the same way.

// `failures`, in which those are the program's own error, of cause program_exit, that name only
// ranks as lost that have left, or have given up for one that has; and those of a meeting of which
// it was said that it waits for one that has left. Not one that names a rank which was killed, is
// gone, or runs on: that may be the reason. What becomes of such an error is the restartPolicy's
// word, as of any other. A rank that has left stays a success. Nor that of a successor that has met
// nobody: what was lost before it is the reason. Pure.
std::vector<Failure> BlameLeavers(const DecisionBuilder& builder,
                                  const GangView& view,
                                  std::vector<Failure> failures);

}  // namespace lockstep::control
