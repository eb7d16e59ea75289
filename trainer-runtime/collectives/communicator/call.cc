#include "trainer-runtime/collectives/communicator/call.h"

#include <array>
#include <cstdio>

namespace lockstep::runtime {
namespace {

std::string ElapsedText(TimePoint begin) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4f s", ToSeconds(SteadyNow() - begin));
  return text.data();
}

}  // namespace

std::size_t DataTypeSize(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return 1;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kFloat64:
      return 8;
  }
  return 1;
}

const char* DataTypeName(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return "uint8";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

const char* ReduceOpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMean:
      return "mean";
    case ReduceOp::kGather:
      return "gather";
  }
  return "unknown";
}

bool Agree(const Call& one, const Call& other) {
  return one.epoch == other.epoch && one.sequence == other.sequence && one.count == other.count &&
         one.root == other.root && one.operation == other.operation && one.type == other.type &&
         one.reduce == other.reduce && one.terms == other.terms &&
         (one.place == other.place || one.operation == Operation::kBroadcast);
}

std::size_t CallBytes(const Call& call) {
  const bool has_data = call.operation != Operation::kAnnounceBroadcast;
  return has_data ? call.count * DataTypeSize(call.type) : 0;
}

std::string DescribeCall(const Call& call) {
  std::string text;
  switch (call.operation) {
    case Operation::kAllReduce:
      text = std::string("all_reduce ") + ReduceOpName(call.reduce) + " of " +
             std::to_string(call.count) + " x " + DataTypeName(call.type) + " (" +
             std::to_string(CallBytes(call)) + " bytes)";
      break;
    case Operation::kBroadcast:
    case Operation::kAnnounceBroadcast:
      text = "broadcast of " + std::to_string(call.count) + " bytes from rank " +
             std::to_string(call.root);
      break;
    case Operation::kBarrier:
      text = "barrier (0 bytes)";
      break;
    default:
      text = "operation " + std::to_string(static_cast<int>(call.operation));
  }
  if (call.place != 0) {
    text += " at byte " + std::to_string(call.place - 1) + " of shared memory";
  }
  return text + ", epoch " + std::to_string(call.epoch) + ", call " + std::to_string(call.sequence);
}

int NameOf(const std::vector<int>& names, int rank) {
  return names.empty() ? rank : names.at(static_cast<std::size_t>(rank));
}

Error MismatchError(int rank, const Call& call, int peer, const Call& peer_call) {
  const bool is_of_data = DescribeCall(call) == DescribeCall(peer_call);
  return Error(ErrorCode::kMismatch,
               std::string("ranks disagree") +
                   (is_of_data ? " on the type or shape of the data" : "") + ": rank " +
                   std::to_string(rank) + " called " + DescribeCall(call) + "; rank " +
                   std::to_string(peer) + " called " + DescribeCall(peer_call));
}

Error CallContext::Fail(ErrorCode code, const std::string& what) const {
  return Error(code,
               "rank " + std::to_string(name) + ": " + DescribeCall(call) + ": " + what +
                   ", after " + ElapsedText(begin));
}

}  // namespace lockstep::runtime
