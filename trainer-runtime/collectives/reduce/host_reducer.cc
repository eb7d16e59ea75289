#include "trainer-runtime/collectives/reduce/host_reducer.h"

#include <string_view>

#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/collectives/reduce/threaded_reducer.h"

namespace lockstep::runtime {

std::unique_ptr<GradientReducer> MakeHostReducer(Communicator* communicator,
                                                 std::size_t bucket_count) {
  const std::string_view backend = communicator->BackendName();
  const bool has_wire = backend == "tcp" || backend == "hierarchical";
  if (has_wire && bucket_count > 1) {
    return std::make_unique<ThreadedReducer>(communicator, bucket_count + 1);  // and the totals
  }
  return std::make_unique<CommunicatorReducer>(communicator);
}

}  // namespace lockstep::runtime
