#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/nccl/bounded_wait.h"
#include "trainer-runtime/collectives/nccl/cuda_device.h"
#include "trainer-runtime/collectives/nccl/nccl_api.h"
#include "trainer-runtime/collectives/nccl/nccl_library.h"

namespace lockstep::runtime {

// What all communicators of one process stand on.
struct NcclGround {
  std::shared_ptr<const NcclLibrary> library;
  // On each of them this process is a rank of NCCL's. Empty: it is one on whatever NCCL takes.
  std::vector<std::shared_ptr<const CudaDevice>> devices;
  // How long a call that ends a communicator may take. An abort takes milliseconds; kernels that do
  // not hear it have been seen to keep it for ever. Choice.
  Duration end_patience = std::chrono::seconds(3);
  // A call into NCCL has not returned in all the time it had. Its thread, and the memory that its
  // kernels may use, are lost: nothing new is begun on them.
  std::atomic<bool> is_stuck{false};
};

// The files that are looked for.
struct NcclFiles {
  std::string nccl = kNcclLibrary;
  std::string cuda = kCudaLibrary;
};

// Opens these GPUs, by CUDA's numbers, and then NCCL: without the first the second is of no use.
// Errors: those of CudaDevice::Open and NcclLibrary::Open, in that order.
Result<std::shared_ptr<NcclGround>> OpenNccl(std::span<const int> devices,
                                             const NcclFiles& files = {});

// The same with the first visible GPU.
Result<std::shared_ptr<NcclGround>> OpenNccl(const NcclFiles& files = {});

// A process's place among those that join: it has as many ranks of NCCL's, from `rank` on, as its
// ground has devices.
struct NcclSeat {
  nccl::UniqueId id{};
  int rank = 0;
  int world_size = 1;  // of all processes together
};

// What one process has of a communicator of NCCL: an end for each device. Whatever is called of all
// of them goes in one group, as one thread calls it, and one thread ends them all: releases of NCCL
// hang where several do (NVIDIA/nccl#992). Nothing here waits longer than its limits say. Its end
// is NCCL's abort in every case: that is local, where a destroy may wait for the others, and loses
// nothing, as whoever ends it has waited for its sums. Thread: one at a time.
class NcclCommunicator {
 public:
  // Joins the others: collective. Errors: kTimeout, those of `limits.check`, and NCCL's, with the
  // device at fault: kPeerLost (another rank or the network), kIo (a call to the system failed: of
  // this machine's, or as a rank is gone), kInvalidArgument (it was used wrongly), kInternal.
  static Result<std::unique_ptr<NcclCommunicator>> Join(std::shared_ptr<NcclGround> ground,
                                                        const NcclSeat& seat,
                                                        const WaitLimits& limits);

  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Takes at most as long as the ground's end_patience. What has not ended then is given up, and
  // the ground is stuck.
  ~NcclCommunicator();

  // What one device brings to a sum. Shapes: data [count of the sum] on that device.
  struct Part {
    void* data = nullptr;
    CudaStreamHandle stream = nullptr;  // of that device
  };

  // Puts the sum over all ranks, in place, into the streams: a later sum runs after it. Shapes:
  // parts [devices of the ground]; `type` is float32 or float64. Errors: as Join.
  Status AllReduce(std::span<const Part> parts,
                   std::size_t count,
                   DataType type,
                   const WaitLimits& limits);

  // What went wrong beside the calls, on any device. Does not wait. Errors: as Join.
  Status Check() const;

  // It is of no use any more: its kernels are stopped before it is ended, where NCCL can do that.
  void NoteFailure() { has_failed_ = true; }

 private:
  NcclCommunicator(std::shared_ptr<NcclGround> ground, std::vector<nccl::Comm*> ends)
      : ground_(std::move(ground)), ends_(std::move(ends)) {}

  Status AwaitSettled(const WaitLimits& limits) const;

  std::shared_ptr<NcclGround> ground_;  // shared: a call that never returns keeps it
  std::vector<nccl::Comm*> ends_;       // [devices]; null: not made
  bool has_failed_ = false;
};

}  // namespace lockstep::runtime
