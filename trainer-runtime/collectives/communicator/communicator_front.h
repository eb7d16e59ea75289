#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer-runtime/collectives/communicator/call.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// What all backends do alike: know their place, number each call and check its arguments. A backend
// adds how one call runs.
class CommunicatorFront : public Communicator {
 public:
  int rank() const final { return rank_; }

  int world_size() const final { return world_size_; }

  void NoteTerms(uint32_t terms) final { terms_ = terms; }

  Status AllReduce(
      void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) final;
  Status Broadcast(void* data, std::size_t byte_count, int root, Deadline deadline) final;
  Status Fill(void* data, std::size_t byte_count, int root, bool holds, Deadline deadline) final;
  Status Barrier(Deadline deadline) final;

  // Returns once every rank has called it with the same `byte_count` and `root`, which is nobody's
  // number here: a broadcast in a larger world is about to pass through this one. Errors: as those
  // of Broadcast.
  Status AnnounceBroadcast(std::size_t byte_count, int root, Deadline deadline);

 protected:
  // `names` as in CommunicatorOptions.
  CommunicatorFront(int rank, int world_size, Epoch epoch, std::vector<int> names = {})
      : rank_(rank), world_size_(world_size), epoch_(epoch), names_(std::move(names)) {}

 private:
  // Runs the call to its end; once anything has failed, Abort() included, returns the first error
  // at once. Shapes: data [CallBytes(context.call)]. Thread: the calling thread.
  virtual Status Run(const CallContext& context, std::byte* data) = 0;

  // Call::place.
  virtual uint64_t PlaceOf(const void* /*data*/, std::size_t /*byte_count*/) const { return 0; }

  CallContext Begin(Call call, Deadline deadline);

  const int rank_;
  const int world_size_;
  const Epoch epoch_;
  const std::vector<int> names_;
  uint64_t sequence_ = 0;  // of the calling thread
  uint32_t terms_ = 0;     // of the next call
};

}  // namespace lockstep::runtime
