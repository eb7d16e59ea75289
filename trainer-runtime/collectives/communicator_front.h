#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer-runtime/collectives/call.h"
#include "trainer-runtime/collectives/communicator.h"

namespace lockstep::runtime {

// What all backends do alike: know their place, number each call and check its arguments. A backend
// adds how one call runs.
class CommunicatorFront : public Communicator {
 public:
  int rank() const final { return rank_; }

  int world_size() const final { return world_size_; }

  Status AllReduce(
      void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) final;
  Status Broadcast(void* data, std::size_t byte_count, int root, Deadline deadline) final;
  Status Barrier(Deadline deadline) final;

 protected:
  CommunicatorFront(int rank, int world_size, Epoch epoch)
      : rank_(rank), world_size_(world_size), epoch_(epoch) {}

 private:
  // Runs the call to its end; once anything has failed, Abort() included, returns the first error
  // at once. Shapes: data [CallBytes(context.call)]. Thread: the calling thread.
  virtual Status Run(const CallContext& context, std::byte* data) = 0;

  CallContext Begin(Call call, Deadline deadline);

  const int rank_;
  const int world_size_;
  const Epoch epoch_;
  uint64_t sequence_ = 0;  // of the calling thread
};

}  // namespace lockstep::runtime
