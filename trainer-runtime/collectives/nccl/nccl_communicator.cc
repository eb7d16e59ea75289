#include "trainer-runtime/collectives/nccl/nccl_communicator.h"

#include <utility>

namespace lockstep::runtime {
namespace {

// What to do about an error of NCCL follows from its kind.
ErrorCode CodeOf(nccl::Result code) {
  switch (code) {
    case nccl::kRemoteError:
    case nccl::kSystemError:  // mostly of a socket whose other end is gone
      return ErrorCode::kPeerLost;
    case nccl::kInvalidArgument:
    case nccl::kInvalidUsage:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kInternal;
  }
}

Error NcclError(const NcclLibrary& library, nccl::Result code, nccl::Comm* comm) {
  return Error(CodeOf(code), "NCCL says: " + library.Words(code, comm));
}

// How `comm` stands: kSuccess, kInProgress, or what went wrong.
nccl::Result StateOf(const NcclLibrary& library, nccl::Comm* comm) {
  nccl::Result state = nccl::kSuccess;
  const nccl::Result asked = library.comm_get_async_error(comm, &state);
  return asked == nccl::kSuccess ? state : asked;
}

// Revokes, where there is something to stop and NCCL can, and aborts. An abort of kernels that run
// has been seen to hang (NVIDIA/nccl#992); quiet ones leave it nothing to wait for.
nccl::Result EndComm(const NcclGround& ground, nccl::Comm* comm, bool has_failed) {
  const NcclLibrary& library = *ground.library;
  if (ground.device != nullptr && !ground.device->MakeCurrent().ok()) {
    return nccl::kUnhandledCudaError;
  }
  if (has_failed && library.comm_revoke != nullptr) {
    const WaitLimits limits{Deadline::After(SteadyNow(), ground.end_patience / 2),
                            [] { return OkStatus(); }};
    static_cast<void>(library.comm_revoke(comm, 0));
    // Whether it became quiet is seen from the abort.
    static_cast<void>(WaitUntil(
        [&]() -> Result<bool> { return StateOf(library, comm) != nccl::kInProgress; }, limits));
  }
  return library.comm_abort(comm);
}

// Waits until `call` has returned. Whether it has.
bool AwaitReturn(const BackgroundCall& call, Duration patience) {
  const WaitLimits limits{Deadline::After(SteadyNow(), patience), [] { return OkStatus(); }};
  return WaitUntil([&]() -> Result<bool> { return call.Poll().has_value(); }, limits).ok();
}

}  // namespace

Result<std::shared_ptr<NcclGround>> OpenNccl(const std::string& nccl_library,
                                             const std::string& cuda_library) {
  auto ground = std::make_shared<NcclGround>();
  LOCKSTEP_ASSIGN_OR_RETURN(ground->device, CudaDevice::OpenFirst(cuda_library));
  LOCKSTEP_ASSIGN_OR_RETURN(ground->library, NcclLibrary::Open(nccl_library));
  return ground;
}

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Join(std::shared_ptr<NcclGround> ground,
                                                                 const NcclSeat& seat,
                                                                 const WaitLimits& limits) {
  // On a thread of its own: it should return at once, but the first call opens the device, and
  // settings of NCCL's own (NCCL_COMM_BLOCKING) can make it wait for the others.
  const auto made = std::make_shared<nccl::Comm*>(nullptr);
  const BackgroundCall call([ground, made, seat] {
    nccl::Config config;
    if (ground->device != nullptr && !ground->device->MakeCurrent().ok()) {
      return nccl::kUnhandledCudaError;
    }
    return ground->library->comm_init_rank_config(
        made.get(), seat.world_size, seat.id, seat.rank, &config);
  });
  Status joined = WaitUntil([&]() -> Result<bool> { return call.Poll().has_value(); }, limits);
  if (!joined.ok() && !AwaitReturn(call, ground->end_patience)) {
    ground->is_stuck.store(true);
    return std::move(joined).error();
  }
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(ground, *made));
  const nccl::Result code = call.Poll().value_or(nccl::kInternalError);
  if (joined.ok() && code != nccl::kSuccess && code != nccl::kInProgress) {
    joined = NcclError(*ground->library, code, nullptr);
  }
  if (joined.ok()) {
    joined = communicator->AwaitSettled(limits);
  }
  if (!joined.ok()) {
    communicator->NoteFailure();
    return std::move(joined).error();
  }
  return communicator;
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) {
    return;
  }
  const BackgroundCall end([ground = ground_, comm = comm_, has_failed = has_failed_] {
    return EndComm(*ground, comm, has_failed);
  });
  if (!AwaitReturn(end, ground_->end_patience)) {
    ground_->is_stuck.store(true);
  }
}

Status NcclCommunicator::AllReduce(void* data,
                                   std::size_t count,
                                   CudaStreamHandle stream,
                                   const WaitLimits& limits) {
  const nccl::Result code =
      ground_->library->all_reduce(data, data, count, nccl::kFloat32, nccl::kSum, comm_, stream);
  if (code == nccl::kInProgress) {
    return AwaitSettled(limits);
  }
  return code == nccl::kSuccess ? OkStatus() : Status(NcclError(*ground_->library, code, comm_));
}

Status NcclCommunicator::Check() const {
  const nccl::Result state = StateOf(*ground_->library, comm_);
  return state == nccl::kSuccess || state == nccl::kInProgress
             ? OkStatus()
             : Status(NcclError(*ground_->library, state, comm_));
}

// A call without blocking goes on by itself; until it is through, nothing may follow it.
Status NcclCommunicator::AwaitSettled(const WaitLimits& limits) const {
  return WaitUntil(
      [this]() -> Result<bool> {
        const nccl::Result state = StateOf(*ground_->library, comm_);
        if (state != nccl::kSuccess && state != nccl::kInProgress) {
          return NcclError(*ground_->library, state, comm_);
        }
        return state == nccl::kSuccess;
      },
      limits);
}

}  // namespace lockstep::runtime
