#pragma once

#include <cstddef>
#include <vector>

#include "trainer-runtime/collectives/communicator.h"

namespace lockstep::runtime {

// What was broadcast, call by call.
using Tape = std::vector<std::vector<std::byte>>;

// One rank of two without the other: what it broadcasts is written to the tape, what the other
// broadcasts is read from there. Where the tape ends, and in every other call, the other is lost.
class TapeCommunicator final : public Communicator {
 public:
  // `tape` must outlive this object.
  TapeCommunicator(int rank, Tape* tape) : rank_(rank), tape_(tape) {}

  int rank() const override { return rank_; }

  int world_size() const override { return 2; }

  Status AllReduce(
      void* data, std::size_t count, DataType type, ReduceOp op, Deadline deadline) override;
  Status Broadcast(void* data, std::size_t byte_count, int root, Deadline deadline) override;
  Status Barrier(Deadline deadline) override;

  void Abort(const Error& /*reason*/) noexcept override {}

  Status CheckHealth() override { return OkStatus(); }

  const char* BackendName() const override { return "tape"; }

 private:
  const int rank_;
  Tape* const tape_;
  std::size_t played_ = 0;
};

}  // namespace lockstep::runtime
