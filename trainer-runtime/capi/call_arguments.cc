#include "trainer-runtime/capi/call_arguments.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "trainer-runtime/capi/lockstep.h"

namespace lockstep::runtime {

Result<Deadline> DeadlineOf(double timeout_seconds) {
  constexpr double kSecondsMax = 1e9;  // 30 years: above, the sum with the clock's time overflows
  if (!(timeout_seconds > 0) || !std::isfinite(timeout_seconds)) {
    return Error(ErrorCode::kInvalidArgument,
                 "timeout_seconds: " + std::to_string(timeout_seconds) +
                     " found, expected a finite number above 0");
  }
  const std::chrono::duration<double> timeout(std::min(timeout_seconds, kSecondsMax));
  return Deadline::After(SteadyNow(), std::chrono::duration_cast<Duration>(timeout));
}

Result<DataType> TypeOf(int type) {
  switch (type % LOCKSTEP_TYPE_WITH(0, 1)) {
    case LOCKSTEP_UINT8:
      return DataType::kUInt8;
    case LOCKSTEP_INT32:
      return DataType::kInt32;
    case LOCKSTEP_INT64:
      return DataType::kInt64;
    case LOCKSTEP_FLOAT32:
      return DataType::kFloat32;
    case LOCKSTEP_FLOAT64:
      return DataType::kFloat64;
    case LOCKSTEP_FLOAT16:
      return DataType::kFloat16;
    case LOCKSTEP_BFLOAT16:
      return DataType::kBFloat16;
    default:
      return Error(ErrorCode::kInvalidArgument, "type: unknown data type " + std::to_string(type));
  }
}

Result<ReduceOp> OpOf(int op, DataType type) {
  switch (op) {
    case LOCKSTEP_SUM:
      return ReduceOp::kSum;
    case LOCKSTEP_MIN:
      return ReduceOp::kMin;
    case LOCKSTEP_MAX:
      return ReduceOp::kMax;
    case LOCKSTEP_MEAN:
      if (type == DataType::kUInt8 || type == DataType::kInt32 || type == DataType::kInt64) {
        return Error(ErrorCode::kInvalidArgument,
                     std::string("op: a mean of ") + DataTypeName(type) +
                         " is not supported: use LOCKSTEP_SUM and divide the result");
      }
      return ReduceOp::kMean;
    default:
      return Error(ErrorCode::kInvalidArgument, "op: unknown operation " + std::to_string(op));
  }
}

}  // namespace lockstep::runtime
