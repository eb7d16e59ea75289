#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// A bucket of gradients, or what else is summed with them, in a GPU's memory, as one replica of
// this process makes it: it is there when `made` comes, a CUevent of the same GPU as it is recorded
// now; null: it is there.
struct DeviceBucket {
  void* address = nullptr;
  std::size_t element_count = 0;
  void* made = nullptr;
  DataType type = DataType::kFloat32;  // or float64
};

// Sums the gradients of a step over all ranks, bucket by bucket: the data beside the Communicator's
// control. Every rank enqueues the same buckets in the same order, and then finishes.
//
// Errors of every call: those of Communicator. After an error the buckets hold unspecified values
// and are not touched any more, the communicator of the same ranks has failed too, and no later
// call succeeds. What a sum that is made beside meets is told by a later call, Finish() at last.
//
// Thread: one calling thread at a time; Abort() from any, but not during destruction. Between
// Finish() and the next Enqueue() the communicator of the same ranks is free for calls.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // The bucket is computed on this rank: its sum may begin, and may be done at once. Its memory
  // belongs to the reducer until Finish() has returned.
  virtual Status Enqueue(std::span<float> bucket, Deadline deadline) = 0;

  // Whether it sums buckets in the memory of those GPUs, by CUDA's numbers, where they are: one
  // replica of this process computes on each. The same on every rank.
  virtual bool SumsOnDevices(std::span<const int> /*devices*/) const { return false; }

  // As Enqueue(), of one bucket as each of those GPUs has it, in their order: all hold the sum over
  // all GPUs of all ranks then. Events are not recorded anew before Finish() has returned.
  // Precondition: SumsOnDevices(), and no bucket in the host's memory since Finish().
  virtual Status EnqueueOnDevices(std::span<const DeviceBucket> /*buckets*/,
                                  Deadline /*deadline*/) {
    return Error(ErrorCode::kUnavailable, "this reducer sums in host memory");
  }

  // As Finish(), of steps that the host has not waited for: makes `after` of each device, a
  // CUstream for what is done with the sums, wait for them, calls `follow` once to put work into
  // it, and returns when all of it is done. So this is the step's one wait, and the first that
  // `after` may be waited for. Returns when the devices were seen to have made the last bucket;
  // empty where there is nothing to sum, and nothing was waited for. Shapes: after [devices].
  // Errors: and those of `follow`.
  virtual Result<std::optional<TimePoint>> FinishOnDevices(
      std::span<void* const> /*after*/,
      const std::function<Status()>& /*follow*/,
      Deadline /*deadline*/) {
    return Error(ErrorCode::kUnavailable, "this reducer sums in host memory");
  }

  // As Enqueue(), of what is counted beside the gradients: in rank order with every backend. Comes
  // after all buckets.
  virtual Status EnqueueTotals(std::span<double> totals, Deadline deadline) = 0;

  // Returns when every bucket that was enqueued holds its sum: bits are equal on all ranks.
  virtual Status Finish(Deadline deadline) = 0;

  // Whether Enqueue() returns before the sum is made, so that a bucket is worth enqueueing while
  // the next one is computed. The same on every rank.
  virtual bool SumsBeside() const = 0;

  // Ends a call in progress and fails it and all later ones with `reason`. Thread: any.
  virtual void Abort(const Error& reason) noexcept = 0;

  // How the sums travel: a word ("shared-memory", "tcp", "alone", "nccl"), and more for people to
  // read, or nothing.
  virtual const char* BackendName() const = 0;
  virtual std::string Detail() const = 0;
};

}  // namespace lockstep::runtime
