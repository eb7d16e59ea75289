#pragma once

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// What programs call the library with, in our own types. Errors: kInvalidArgument, by name.

Result<Deadline> DeadlineOf(double timeout_seconds);

// `type`: a lockstep_type, with or without a word.
Result<DataType> TypeOf(int type);

// `op`: a lockstep_op for elements of `type`.
Result<ReduceOp> OpOf(int op, DataType type);

}  // namespace lockstep::runtime
