#include "trainer-runtime/collectives/nccl/nccl_reducer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "trainer-runtime/collectives/nccl/nccl_agreement.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kWordsSize = 400;  // choice: room for a sentence of NCCL's

// What rank 0 gives to the others before they join.
struct Invitation {
  int32_t code = 0;  // 0, or NCCL's when there is no identity
  nccl::UniqueId id{};
  std::array<char, kWordsSize> words{};
};

// What the other ranks fail with when this one does. That this process has to be replaced is its
// own affair: they meet its successor.
Error AsTold(const Error& error) {
  const bool is_own = error.code() == ErrorCode::kInternal ||
                      error.code() == ErrorCode::kUnavailable ||
                      error.code() == ErrorCode::kResourceExhausted;
  return is_own ? Error(ErrorCode::kAborted, error.ToString()) : error;
}

// NCCL may learn first that a rank is gone, and only `control` learns which. Choice: a connection
// that its peer has closed is noticed within milliseconds, and recovery waits for nothing else.
constexpr std::chrono::milliseconds kNamingPatience{200};

Error Named(const Error& cause, Communicator* control) {
  return cause.code() != ErrorCode::kPeerLost
             ? cause
             : WithWhoIsGone(cause, {Deadline::After(SteadyNow(), kNamingPatience), [control] {
                                       return control->CheckHealth();
                                     }});
}

// The device refuses: its context is of no use any more, so this process is not either.
Status FromDevice(Status status) {
  return status.ok() || status.error().code() == ErrorCode::kResourceExhausted
             ? status
             : Status(Error(ErrorCode::kInternal, status.error().message()));
}

// Frees what NCCL's kernels use, unless they may still run: then it is lost with them.
void FreeStage(const NcclGround& ground, std::unique_ptr<CudaStage> stage) {
  if (ground.is_stuck.load()) {
    static_cast<void>(stage.release());
  }
}

class NcclReducer final : public GradientReducer {
 public:
  NcclReducer(const NcclReducerOptions& options,
              std::unique_ptr<CudaStage> stage,
              std::unique_ptr<NcclCommunicator> communicator)
      : ground_(options.ground),
        control_(options.control),
        epoch_(options.epoch),
        element_count_(options.element_count),
        stage_(std::move(stage)),
        communicator_(std::move(communicator)) {}

  ~NcclReducer() override { End(); }

  Status Enqueue(std::span<float> bucket, Deadline deadline) override;
  Status EnqueueOnDevice(const DeviceBucket& bucket, Deadline deadline) override;
  Status EnqueueTotals(std::span<double> totals, Deadline deadline) override;
  Status Finish(Deadline deadline) override;

  bool SumsBeside() const override { return true; }

  // NCCL is on the first GPU that this process may use.
  bool SumsOnDevice(int device) const override { return device == 0; }

  // Whoever waits for NCCL looks at `control` all the time.
  void Abort(const Error& reason) noexcept override { control_->Abort(reason); }

  const char* BackendName() const override { return "nccl"; }

  std::string Detail() const override {
    return ground_->library->Describe() + ", on " + ground_->device->uuid();
  }

 private:
  struct Entry {
    std::span<float> bucket;
    std::size_t offset;  // bytes into the stage
  };

  Status Send(std::span<float> bucket, const WaitLimits& limits);
  Status SumInPlace(const DeviceBucket& bucket, const WaitLimits& limits);
  WaitLimits LimitsOf(Deadline deadline) const;
  CallContext ContextOf(std::size_t count, Deadline deadline) const;
  Status Fail(const CallContext& context, const Error& met);
  void End();

  std::shared_ptr<NcclGround> ground_;
  Communicator* control_;
  Epoch epoch_;
  std::size_t element_count_;
  std::unique_ptr<CudaStage> stage_;
  std::unique_ptr<NcclCommunicator> communicator_;
  std::vector<Entry> entries_;     // since the last Finish
  std::size_t pending_count_ = 0;  // elements of them
  uint64_t sequence_ = 0;
  std::optional<Error> failure_;
};

Status NcclReducer::Enqueue(std::span<float> bucket, Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  ++sequence_;
  const CallContext context = ContextOf(bucket.size(), deadline);
  LOCKSTEP_CHECK(pending_count_ + bucket.size() <= element_count_, "more buckets than the plan");
  const Status sent = Send(bucket, LimitsOf(deadline));
  return sent.ok() ? sent : Fail(context, sent.error());
}

Status NcclReducer::Send(std::span<float> bucket, const WaitLimits& limits) {
  const std::size_t offset = pending_count_ * sizeof(float);
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage_->device().MakeCurrent()));
  std::memcpy(stage_->host() + offset, bucket.data(), bucket.size_bytes());
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage_->CopyToDevice(offset, bucket.size_bytes())));
  LOCKSTEP_RETURN_IF_ERROR(communicator_->AllReduce(
      stage_->device_address(offset), bucket.size(), stage_->stream(), limits));
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage_->CopyToHost(offset, bucket.size_bytes())));
  entries_.push_back({bucket, offset});
  pending_count_ += bucket.size();
  return OkStatus();
}

Status NcclReducer::EnqueueOnDevice(const DeviceBucket& bucket, Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  ++sequence_;
  const CallContext context = ContextOf(bucket.element_count, deadline);
  const Status sent = SumInPlace(bucket, LimitsOf(deadline));
  return sent.ok() ? sent : Fail(context, sent.error());
}

// In the stage's stream, of which Finish sees the end; its memory is not used.
Status NcclReducer::SumInPlace(const DeviceBucket& bucket, const WaitLimits& limits) {
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage_->device().MakeCurrent()));
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage_->WaitFor(bucket.stream)));
  return communicator_->AllReduce(bucket.address, bucket.element_count, stage_->stream(), limits);
}

// By `control`, while NCCL is at work.
Status NcclReducer::EnqueueTotals(std::span<double> totals, Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  const CallContext context = ContextOf(pending_count_, deadline);
  const Status summed = control_->AllReduce(
      totals.data(), totals.size(), DataType::kFloat64, ReduceOp::kSum, deadline);
  return summed.ok() ? summed : Fail(context, summed.error());
}

Status NcclReducer::Finish(Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  const CallContext context = ContextOf(pending_count_, deadline);
  const Status done = WaitUntil(
      [this]() -> Result<bool> {
        const Result<bool> is_idle = stage_->IsIdle();
        // NCCL's word first: a stream that was stopped because of an error is idle, too.
        LOCKSTEP_RETURN_IF_ERROR(communicator_->Check());
        return is_idle.ok() ? is_idle : Result<bool>(FromDevice(is_idle.error()).error());
      },
      LimitsOf(deadline));
  if (!done.ok()) {
    return Fail(context, done.error());
  }
  for (const Entry& entry : entries_) {
    std::memcpy(entry.bucket.data(), stage_->host() + entry.offset, entry.bucket.size_bytes());
  }
  entries_.clear();
  pending_count_ = 0;
  return OkStatus();
}

WaitLimits NcclReducer::LimitsOf(Deadline deadline) const {
  return {deadline, [control = control_] { return control->CheckHealth(); }};
}

CallContext NcclReducer::ContextOf(std::size_t count, Deadline deadline) const {
  Call call;
  call.epoch = epoch_.value();
  call.sequence = sequence_;
  call.operation = Operation::kAllReduce;
  call.count = count;
  call.type = DataType::kFloat32;
  call.reduce = ReduceOp::kSum;
  return {call, control_->rank(), SteadyNow(), deadline, control_->rank()};
}

Status NcclReducer::Fail(const CallContext& context, const Error& met) {
  const Error error = Named(met, control_);
  std::string what = "by NCCL: " + error.message();
  if (error.code() == ErrorCode::kTimeout) {
    what += ", and NCCL does not say which rank is late";
  }
  failure_ = context.Fail(error.code(), what);
  control_->Abort(AsTold(*failure_));
  if (communicator_ != nullptr) {
    communicator_->NoteFailure();
  }
  End();
  return *failure_;
}

void NcclReducer::End() {
  communicator_.reset();
  FreeStage(*ground_, std::move(stage_));
}

// --- Joining ---

Status ExchangeHellos(const NcclReducerOptions& options, Deadline deadline) {
  const auto rank = static_cast<std::size_t>(options.control->rank());
  std::vector<NcclHello> hellos(static_cast<std::size_t>(options.control->world_size()));
  hellos[rank] = MakeNcclHello(options.ground->library->version(),
                               options.ground->device->uuid(),
                               options.ground->is_stuck.load());
  // Each byte is one rank's and zero at the others, so their sum puts the list together.
  LOCKSTEP_RETURN_IF_ERROR(options.control->AllReduce(hellos.data(),
                                                      hellos.size() * sizeof(NcclHello),
                                                      DataType::kUInt8,
                                                      ReduceOp::kSum,
                                                      deadline));
  if (options.ground->is_stuck.load()) {
    return Error(ErrorCode::kInternal, "an earlier call of NCCL has not returned in this process");
  }
  return CheckNcclHellos(hellos);
}

Result<nccl::UniqueId> ExchangeIdentity(const NcclReducerOptions& options, Deadline deadline) {
  const bool is_host = options.control->rank() == 0;
  Invitation invitation;
  if (is_host) {
    const NcclLibrary& library = *options.ground->library;
    invitation.code = library.get_unique_id(&invitation.id);
    if (invitation.code != nccl::kSuccess) {
      const std::string words = library.Words(invitation.code, nullptr);
      std::copy_n(words.data(), std::min(words.size(), kWordsSize - 1), invitation.words.data());
    }
  }
  const Status sent = options.control->Broadcast(&invitation, sizeof(invitation), 0, deadline);
  // Whoever has heard of a failure may give up before rank 0 is through with telling it.
  if ((sent.ok() || is_host) && invitation.code != nccl::kSuccess) {
    // Of rank 0's machine, such as no network interface: the others meet its successor.
    return Error(is_host ? ErrorCode::kInternal : ErrorCode::kAborted,
                 "rank 0 got no identity; NCCL says: " + std::string(invitation.words.data()));
  }
  if (!sent.ok()) {
    return sent.error();
  }
  return invitation.id;
}

Result<std::unique_ptr<GradientReducer>> JoinAll(const NcclReducerOptions& options,
                                                 Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(ExchangeHellos(options, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(const nccl::UniqueId id, ExchangeIdentity(options, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<CudaStage> stage,
      CudaStage::Make(options.ground->device, options.element_count * sizeof(float)));
  const WaitLimits limits{deadline, [&options]() -> Status {
                            if (options.is_stopped && options.is_stopped()) {
                              return Error(ErrorCode::kAborted, "joining stopped by request");
                            }
                            return options.control->CheckHealth();
                          }};
  auto communicator = NcclCommunicator::Join(
      options.ground, {id, options.control->rank(), options.control->world_size()}, limits);
  if (!communicator.ok()) {
    FreeStage(*options.ground, std::move(stage));
    return std::move(communicator).error();
  }
  return std::unique_ptr<GradientReducer>(
      std::make_unique<NcclReducer>(options, std::move(stage), std::move(communicator).value()));
}

}  // namespace

Result<std::unique_ptr<GradientReducer>> JoinNccl(const NcclReducerOptions& options,
                                                  Deadline deadline) {
  const TimePoint begin = SteadyNow();
  Result<std::unique_ptr<GradientReducer>> joined = JoinAll(options, deadline);
  if (joined.ok()) {
    return joined;
  }
  const Error cause = Named(joined.error(), options.control);
  const Communicator& control = *options.control;
  const ErrorCode code =
      cause.code() == ErrorCode::kUnavailable ? ErrorCode::kInternal : cause.code();
  Error error(code,
              "rank " + std::to_string(control.rank()) + ": joining " +
                  std::to_string(control.world_size()) + " ranks by NCCL " +
                  options.ground->library->VersionText() + ", epoch " +
                  std::to_string(options.epoch.value()) + ": " + cause.ToString() + ", after " +
                  std::to_string(ToSeconds(SteadyNow() - begin)) + " s");
  options.control->Abort(AsTold(error));
  return error;
}

}  // namespace lockstep::runtime
