#pragma once

#include <memory>

#include "common/base/result.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/strategy/replica_set.h"

namespace lockstep::runtime {

// Lets the numbers of the first replica lie in memory that the ranks of its host can read:
//
//   | gradients | parameters | slots |     each from a page on
//
// or the gradients alone, of an engine that keeps its state to itself. Ranks of one spec and one
// engine lend alike. What is returned must outlive the engine and every communicator that it is
// lent to. Null: there are no gradients. Errors: those of SharedSegment and of
// Engine::LendGradients; the engine has its own memory then.
Result<std::unique_ptr<const SharedSegment>> LendFirstReplica(ReplicaSet* replicas);

}  // namespace lockstep::runtime
