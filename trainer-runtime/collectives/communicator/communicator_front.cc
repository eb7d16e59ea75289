#include "trainer-runtime/collectives/communicator/communicator_front.h"

#include <utility>

namespace lockstep::runtime {

CallContext CommunicatorFront::Begin(Call call, Deadline deadline) {
  call.epoch = epoch_.value();
  call.sequence = ++sequence_;
  call.terms = std::exchange(terms_, 0);
  return CallContext{call, rank_, SteadyNow(), deadline, NameOf(names_, rank_)};
}

Status CommunicatorFront::AllReduce(
    void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) {
  Call call;
  call.operation = Operation::kAllReduce;
  call.count = count;
  call.type = type;
  call.reduce = op;
  call.place = PlaceOf(data, CallBytes(call));
  return Run(Begin(call, deadline), static_cast<std::byte*>(data));
}

Status CommunicatorFront::Broadcast(void* data,
                                    std::size_t byte_count,
                                    int root,
                                    Deadline deadline) {
  return Fill(data, byte_count, root, /*holds=*/false, deadline);
}

Status CommunicatorFront::Fill(
    void* data, std::size_t byte_count, int root, bool holds, Deadline deadline) {
  Call call;
  call.operation = Operation::kBroadcast;
  call.count = byte_count;
  call.root = root;
  call.holds = holds || root == rank_ ? 1 : 0;
  call.place = PlaceOf(data, byte_count);
  const CallContext context = Begin(call, deadline);
  if (root < 0 || root >= world_size_) {
    const Error error =
        context.Fail(ErrorCode::kInvalidArgument, "the root is not a rank of this communicator");
    Abort(error);
    return error;
  }
  return Run(context, static_cast<std::byte*>(data));
}

Status CommunicatorFront::AnnounceBroadcast(std::size_t byte_count, int root, Deadline deadline) {
  Call call;
  call.operation = Operation::kAnnounceBroadcast;
  call.count = byte_count;
  call.root = root;
  return Run(Begin(call, deadline), nullptr);
}

Status CommunicatorFront::Barrier(Deadline deadline) {
  return Run(Begin(Call{}, deadline), nullptr);
}

}  // namespace lockstep::runtime
