#pragma once

#include <vector>

#include "operator/reconcile/decision_builder.h"
#include "operator/reconcile/failure/failure.h"
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

// Whether the job succeeds by the exit code 0 of the rank that decides it, whose end may have been
// told before what the others say of it.
enum class DecisiveEnd {
  kNone,     // the ranks whose success is the job's have not all ended so
  kOver,     // nobody misses them
  kAwaited,  // others that have met by liblockstep, or of which nobody knows yet whether they have,
             // still run: they may be about to miss it
  kMissed,   // BlameLeavers has it
};

// Others that neither end nor wait in a meeting miss nothing, after twice kFarewellSeen; after it
// once where they say nothing. Where one says that all ranks have done all their work, nobody is
// missed; nor is anybody of a training, whose ranks take their last step together. Asks `builder`
// to look again while the answer is kAwaited.
DecisiveEnd DecisiveEndOf(const GangView& view, DecisionBuilder* builder);

}  // namespace lockstep::control
