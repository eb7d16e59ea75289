#pragma once

#include <cstddef>
#include <memory>

#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"

namespace lockstep::runtime {

// Sums gradients in host memory over the ranks of `communicator`, which must outlive the result.
// `bucket_count`: of a step, equal on every rank.
//
// They are summed beside the computing thread where bytes cross a wire between hosts and there is
// more than one bucket: waiting for a wire costs no core. In memory that ranks share a sum is the
// core's own work, so a second thread would only take turns with the first; and the only bucket is
// complete no sooner than backward is.
std::unique_ptr<GradientReducer> MakeHostReducer(Communicator* communicator,
                                                 std::size_t bucket_count);

}  // namespace lockstep::runtime
