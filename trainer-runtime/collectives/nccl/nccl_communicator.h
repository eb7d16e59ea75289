#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "trainer-runtime/collectives/nccl/bounded_wait.h"
#include "trainer-runtime/collectives/nccl/cuda_device.h"
#include "trainer-runtime/collectives/nccl/nccl_api.h"
#include "trainer-runtime/collectives/nccl/nccl_library.h"

namespace lockstep::runtime {

// What all communicators of one process stand on.
struct NcclGround {
  std::shared_ptr<const NcclLibrary> library;
  std::shared_ptr<const CudaDevice> device;  // null: whatever NCCL takes
  // How long a call that ends a communicator may take. An abort takes milliseconds; kernels that do
  // not hear it have been seen to keep it for ever. Choice.
  Duration end_patience = std::chrono::seconds(3);
  // A call into NCCL has not returned in all the time it had. Its thread, and the memory that its
  // kernels may use, are lost: nothing new is begun on them.
  std::atomic<bool> is_stuck{false};
};

// Opens the first visible GPU, and then NCCL: without the first the second is of no use. Errors:
// those of CudaDevice::OpenFirst and NcclLibrary::Open, in that order.
Result<std::shared_ptr<NcclGround>> OpenNccl(const std::string& nccl_library = kNcclLibrary,
                                             const std::string& cuda_library = kCudaLibrary);

// One rank's place among those that join.
struct NcclSeat {
  nccl::UniqueId id{};
  int rank = 0;
  int world_size = 1;
};

// One rank's end of a communicator of NCCL. Nothing here waits longer than its limits say. Its end
// is NCCL's abort in every case: that is local, where a destroy may wait for the others, and loses
// nothing, as whoever ends it has waited for its sums. Thread: one.
class NcclCommunicator {
 public:
  // Joins the others: collective. Errors: kTimeout, those of `limits.check`, and NCCL's:
  // kPeerLost (another rank or the network), kInvalidArgument (it was used wrongly), kInternal.
  static Result<std::unique_ptr<NcclCommunicator>> Join(std::shared_ptr<NcclGround> ground,
                                                        const NcclSeat& seat,
                                                        const WaitLimits& limits);

  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Takes at most as long as the ground's end_patience. What has not ended then is given up, and
  // the ground is stuck.
  ~NcclCommunicator();

  // Puts the sum over all ranks, in place, into the stream: a later sum runs after it. Shapes: data
  // [count] of float32 on the device. Errors: as Join.
  Status AllReduce(void* data,
                   std::size_t count,
                   CudaStreamHandle stream,
                   const WaitLimits& limits);

  // What went wrong beside the calls. Does not wait. Errors: as Join.
  Status Check() const;

  // It is of no use any more: its kernels are stopped before it is ended, where NCCL can do that.
  void NoteFailure() { has_failed_ = true; }

 private:
  NcclCommunicator(std::shared_ptr<NcclGround> ground, nccl::Comm* comm)
      : ground_(std::move(ground)), comm_(comm) {}

  Status AwaitSettled(const WaitLimits& limits) const;

  std::shared_ptr<NcclGround> ground_;  // shared: a call that never returns keeps it
  nccl::Comm* comm_;
  bool has_failed_ = false;
};

}  // namespace lockstep::runtime
