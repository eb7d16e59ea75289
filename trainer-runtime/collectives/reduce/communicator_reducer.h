#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"

namespace lockstep::runtime {

// Sums gradients in host memory by the communicator's own all-reduce, so in its order.
// `communicator` must outlive this object.
class CommunicatorReducer final : public GradientReducer {
 public:
  explicit CommunicatorReducer(Communicator* communicator) : communicator_(communicator) {}

  // Sums at once: the communicator has one calling thread, and this is it.
  Status Enqueue(std::span<float> bucket, Deadline deadline) override {
    return communicator_->AllReduce(
        bucket.data(), bucket.size(), DataType::kFloat32, ReduceOp::kSum, deadline);
  }

  // Of one replica's gradients there is nothing to add.
  bool SumsOnDevices(std::span<const int> devices) const override {
    return communicator_->world_size() == 1 && devices.size() == 1;
  }

  Status EnqueueOnDevices(std::span<const DeviceBucket> /*buckets*/,
                          Deadline /*deadline*/) override {
    return communicator_->CheckHealth();
  }

  // There is no sum to wait for.
  Result<std::optional<TimePoint>> FinishOnDevices(std::span<void* const> /*after*/,
                                                   const std::function<Status()>& follow,
                                                   Deadline /*deadline*/) override {
    LOCKSTEP_RETURN_IF_ERROR(follow());
    return std::optional<TimePoint>();
  }

  Status EnqueueTotals(std::span<double> totals, Deadline deadline) override {
    return communicator_->AllReduce(
        totals.data(), totals.size(), DataType::kFloat64, ReduceOp::kSum, deadline);
  }

  Status Finish(Deadline /*deadline*/) override { return OkStatus(); }

  bool SumsBeside() const override { return false; }

  void Abort(const Error& reason) noexcept override { communicator_->Abort(reason); }

  const char* BackendName() const override { return communicator_->BackendName(); }

  std::string Detail() const override { return communicator_->Detail(); }

 private:
  Communicator* communicator_;
};

}  // namespace lockstep::runtime
