#include "trainer-runtime/collectives/nccl/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// What to do about an error of NCCL follows from its kind.
ErrorCode CodeOf(nccl::Result code) {
  switch (code) {
    case nccl::kRemoteError:
      return ErrorCode::kPeerLost;
    case nccl::kSystemError:  // a socket whose other end is gone, or this machine's: WithBlame
                              // tells
      return ErrorCode::kIo;
    case nccl::kInvalidArgument:
    case nccl::kInvalidUsage:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kInternal;
  }
}

// "", or which of several devices is meant.
std::string WhereText(const NcclGround& ground, std::size_t index) {
  return ground.devices.size() > 1 ? " on " + ground.devices[index]->uuid() : "";
}

Error NcclError(const NcclGround& ground, nccl::Result code, nccl::Comm* comm, std::size_t index) {
  return Error(CodeOf(code),
               "NCCL says" + WhereText(ground, index) + ": " + ground.library->Words(code, comm));
}

bool IsRefusal(nccl::Result code) {
  return code != nccl::kSuccess && code != nccl::kInProgress;
}

// How `comm` stands: kSuccess, kInProgress, or what went wrong.
nccl::Result StateOf(const NcclLibrary& library, nccl::Comm* comm) {
  nccl::Result state = nccl::kSuccess;
  const nccl::Result asked = library.comm_get_async_error(comm, &state);
  return asked == nccl::kSuccess ? state : asked;
}

// What is called of several ends is one group: NCCL begins no part of it before it knows all. Of
// one end it is a call as any other.
class Group {
 public:
  Group(const NcclLibrary& library, std::size_t end_count)
      : library_(library), is_needed_(end_count > 1) {
    begun_ = is_needed_ ? library_.group_start() : nccl::kSuccess;
  }

  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Whether it could be begun.
  nccl::Result begun() const { return begun_; }

  // What its calls came to, of which `called` is the first refusal, if any.
  nccl::Result End(nccl::Result called) {
    if (!is_needed_ || IsRefusal(begun_)) {
      return IsRefusal(begun_) ? begun_ : called;
    }
    const nccl::Result ended = library_.group_end();  // in every case: it is the thread's
    return IsRefusal(called) ? called : ended;
  }

 private:
  const NcclLibrary& library_;
  bool is_needed_;
  nccl::Result begun_;
};

std::size_t EndCount(const NcclGround& ground) {
  return std::max<std::size_t>(1, ground.devices.size());
}

// On the device of that end, if it is a certain one.
Status MakeCurrent(const NcclGround& ground, std::size_t index) {
  return ground.devices.empty() ? OkStatus() : ground.devices[index]->MakeCurrent();
}

// What a process that joins has made, and which end was refused.
struct Beginning {
  std::vector<nccl::Comm*> ends;
  std::size_t refused_index = 0;
};

nccl::Result BeginJoining(const NcclGround& ground, const NcclSeat& seat, Beginning* made) {
  Group group(*ground.library, made->ends.size());
  nccl::Result code = group.begun();
  nccl::Config config;  // outlives the group
  for (std::size_t i = 0; i < made->ends.size() && !IsRefusal(code); ++i) {
    made->refused_index = i;
    code = MakeCurrent(ground, i).ok()
               ? ground.library->comm_init_rank_config(&made->ends[i],
                                                       seat.world_size,
                                                       seat.id,
                                                       seat.rank + static_cast<int>(i),
                                                       &config)
               : nccl::kUnhandledCudaError;
  }
  return group.End(code);
}

// Revokes, where there is something to stop and NCCL can, and aborts. An abort of kernels that run
// has been seen to hang (NVIDIA/nccl#992); quiet ones leave it nothing to wait for. First all are
// revoked: those of one process wait for each other.
nccl::Result EndAll(const NcclGround& ground,
                    const std::vector<nccl::Comm*>& ends,
                    bool has_failed) {
  const NcclLibrary& library = *ground.library;
  if (has_failed && library.comm_revoke != nullptr) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] != nullptr && MakeCurrent(ground, i).ok()) {
        static_cast<void>(library.comm_revoke(ends[i], 0));
      }
    }
    const WaitLimits limits{Deadline::After(SteadyNow(), ground.end_patience / 2),
                            [] { return OkStatus(); }};
    // Whether they became quiet is seen from the abort.
    static_cast<void>(WaitUntil(
        [&]() -> Result<bool> {
          return std::ranges::none_of(ends, [&](nccl::Comm* comm) {
            return comm != nullptr && StateOf(library, comm) == nccl::kInProgress;
          });
        },
        limits));
  }
  nccl::Result first = nccl::kSuccess;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] == nullptr) {
      continue;
    }
    const nccl::Result code =
        MakeCurrent(ground, i).ok() ? library.comm_abort(ends[i]) : nccl::kUnhandledCudaError;
    first = IsRefusal(first) ? first : code;
  }
  return first;
}

// Waits until `call` has returned. Whether it has.
bool AwaitReturn(const BackgroundCall& call, Duration patience) {
  const WaitLimits limits{Deadline::After(SteadyNow(), patience), [] { return OkStatus(); }};
  return WaitUntil([&]() -> Result<bool> { return call.Poll().has_value(); }, limits).ok();
}

}  // namespace

Result<std::shared_ptr<NcclGround>> OpenNccl(std::span<const int> devices, const NcclFiles& files) {
  auto ground = std::make_shared<NcclGround>();
  for (const int device : devices) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDevice> opened,
                              CudaDevice::Open(device, files.cuda));
    ground->devices.push_back(std::move(opened));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(ground->library, NcclLibrary::Open(files.nccl));
  return ground;
}

Result<std::shared_ptr<NcclGround>> OpenNccl(const NcclFiles& files) {
  constexpr int kFirst[] = {0};
  return OpenNccl(kFirst, files);
}

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Join(std::shared_ptr<NcclGround> ground,
                                                                 const NcclSeat& seat,
                                                                 const WaitLimits& limits) {
  // On a thread of its own: it should return at once, but the first call opens the device, and
  // settings of NCCL's own (NCCL_COMM_BLOCKING) can make it wait for the others.
  const auto made = std::make_shared<Beginning>();
  made->ends.resize(EndCount(*ground), nullptr);
  const BackgroundCall call(
      [ground, made, seat] { return BeginJoining(*ground, seat, made.get()); });
  Status joined = WaitUntil([&]() -> Result<bool> { return call.Poll().has_value(); }, limits);
  if (!joined.ok() && !AwaitReturn(call, ground->end_patience)) {
    ground->is_stuck.store(true);
    return std::move(joined).error();
  }
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(ground, made->ends));
  const nccl::Result code = call.Poll().value_or(nccl::kInternalError);
  if (joined.ok() && IsRefusal(code)) {
    joined = NcclError(*ground, code, nullptr, made->refused_index);
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
  if (std::ranges::all_of(ends_, [](nccl::Comm* comm) { return comm == nullptr; })) {
    return;
  }
  const BackgroundCall end([ground = ground_, ends = ends_, has_failed = has_failed_] {
    return EndAll(*ground, ends, has_failed);
  });
  if (!AwaitReturn(end, ground_->end_patience)) {
    ground_->is_stuck.store(true);
  }
}

Status NcclCommunicator::AllReduce(std::span<const Part> parts,
                                   std::size_t count,
                                   DataType type,
                                   const WaitLimits& limits) {
  LOCKSTEP_CHECK(parts.size() == ends_.size(), "one part for each device is needed");
  LOCKSTEP_CHECK(type == DataType::kFloat32 || type == DataType::kFloat64,
                 "only float32 and float64 can be summed");
  const int nccl_type = type == DataType::kFloat64 ? nccl::kFloat64 : nccl::kFloat32;
  Group group(*ground_->library, ends_.size());
  nccl::Result code = group.begun();
  std::size_t refused_index = 0;
  for (std::size_t i = 0; i < parts.size() && !IsRefusal(code); ++i) {
    refused_index = i;
    code = ground_->library->all_reduce(
        parts[i].data, parts[i].data, count, nccl_type, nccl::kSum, ends_[i], parts[i].stream);
  }
  code = group.End(code);
  if (IsRefusal(code)) {
    return NcclError(*ground_, code, ends_[refused_index], refused_index);
  }
  return code == nccl::kInProgress ? AwaitSettled(limits) : OkStatus();
}

Status NcclCommunicator::Check() const {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const nccl::Result state = StateOf(*ground_->library, ends_[i]);
    if (IsRefusal(state)) {
      return NcclError(*ground_, state, ends_[i], i);
    }
  }
  return OkStatus();
}

// A call without blocking goes on by itself; until it is through, nothing may follow it.
Status NcclCommunicator::AwaitSettled(const WaitLimits& limits) const {
  return WaitUntil(
      [this]() -> Result<bool> {
        LOCKSTEP_RETURN_IF_ERROR(Check());
        return std::ranges::all_of(ends_, [this](nccl::Comm* comm) {
          return StateOf(*ground_->library, comm) == nccl::kSuccess;
        });
      },
      limits);
}

}  // namespace lockstep::runtime
