#include "trainer-runtime/collectives/nccl/nccl_reducer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "trainer-runtime/collectives/nccl/nccl_stages.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kWordsSize = 400;  // choice: room for a sentence of NCCL's

// What rank 0 gives to the others before they join.
struct Invitation {
  int32_t code = 0;  // 0, or NCCL's when there is no identity
  nccl::UniqueId id{};
  std::array<char, kWordsSize> words{};
};

// "GPU-5d2c, GPU-8f0c".
std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::string NamesOf(const std::vector<std::shared_ptr<const CudaDevice>>& devices) {
  std::vector<std::string> names;
  for (const auto& device : devices) {
    names.push_back(device->uuid());
  }
  return Listed(names);
}

// What the other ranks fail with when this one does. That this process has to be replaced is its
// own affair: they meet its successor.
Error AsTold(const Error& error) {
  const bool is_own = error.code() == ErrorCode::kInternal ||
                      error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kIo ||
                      error.code() == ErrorCode::kResourceExhausted;
  return is_own ? Error(ErrorCode::kAborted, error.ToString()) : error;
}

Error Named(const Error& met, Communicator* control, Duration patience) {
  return WithBlame(
      met, [control] { return control->CheckHealth(); }, patience);
}

// The device refuses: its context is of no use any more, so this process is not either.
Status FromDevice(Status status) {
  return status.ok() || status.error().code() == ErrorCode::kResourceExhausted
             ? status
             : Status(Error(ErrorCode::kInternal, status.error().message()));
}

class NcclReducer final : public GradientReducer {
 public:
  NcclReducer(const NcclReducerOptions& options,
              NcclStages stages,
              std::unique_ptr<NcclCommunicator> communicator)
      : ground_(options.ground),
        control_(options.control),
        epoch_(options.epoch),
        element_count_(options.element_count),
        loss_patience_(options.loss_patience),
        stages_(std::move(stages)),
        parts_(stages_.size()),
        last_made_(stages_.size()),
        communicator_(std::move(communicator)) {}

  ~NcclReducer() override { End(); }

  Status Enqueue(std::span<float> bucket, Deadline deadline) override;
  Status EnqueueOnDevices(std::span<const DeviceBucket> buckets, Deadline deadline) override;
  Status EnqueueTotals(std::span<double> totals, Deadline deadline) override;
  Status Finish(Deadline deadline) override;
  Result<std::optional<TimePoint>> FinishOnDevices(std::span<void* const> after,
                                                   const std::function<Status()>& follow,
                                                   Deadline deadline) override;

  bool SumsBeside() const override { return true; }

  bool SumsOnDevices(std::span<const int> devices) const override {
    return std::ranges::equal(devices, ground_->devices, [](int number, const auto& device) {
      return device->number() == number;
    });
  }

  // Whoever waits for NCCL looks at `control` all the time.
  void Abort(const Error& reason) noexcept override { control_->Abort(reason); }

  const char* BackendName() const override { return "nccl"; }

  std::string Detail() const override {
    return ground_->library->Describe() + ", on " + NamesOf(ground_->devices);
  }

 private:
  struct Entry {
    std::span<float> bucket;
    std::size_t offset;  // bytes into the stage
  };

  Status Send(std::span<float> bucket, const WaitLimits& limits);
  Status SumInPlace(std::span<const DeviceBucket> buckets, const WaitLimits& limits);
  Status OrderBehind(std::span<void* const> after, const std::function<Status()>& follow);
  bool IsLastMade() const;
  Status AwaitStages(const WaitLimits& limits, const std::function<void()>& look);
  Result<bool> AreIdle();
  WaitLimits LimitsOf(Deadline deadline) const;
  CallContext ContextOf(std::size_t count, Deadline deadline) const;
  Status Fail(const CallContext& context, const Error& met);
  void End();

  std::shared_ptr<NcclGround> ground_;
  Communicator* control_;
  Epoch epoch_;
  std::size_t element_count_;
  Duration loss_patience_;
  NcclStages stages_;                          // [devices]; empty after the end
  std::vector<NcclCommunicator::Part> parts_;  // [devices] of the bucket at hand
  std::vector<CudaEventHandle> last_made_;     // [devices] of the last bucket on them
  std::unique_ptr<NcclCommunicator> communicator_;
  std::vector<std::string> busy_;   // devices on which a sum has not ended, as Finish last saw
  std::vector<Entry> entries_;      // since the last Finish
  std::size_t pending_count_ = 0;   // elements of them
  std::size_t in_place_count_ = 0;  // elements summed on devices since the last Finish
  uint64_t sequence_ = 0;
  std::optional<Error> failure_;
};

Status NcclReducer::Enqueue(std::span<float> bucket, Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  ++sequence_;
  const CallContext context = ContextOf(bucket.size(), deadline);
  LOCKSTEP_CHECK(pending_count_ + bucket.size() <= element_count_, "more buckets than planned");
  const Status sent = Send(bucket, LimitsOf(deadline));
  return sent.ok() ? sent : Fail(context, sent.error());
}

Status NcclReducer::Send(std::span<float> bucket, const WaitLimits& limits) {
  LOCKSTEP_CHECK(stages_.size() == 1, "gradients in host memory need exactly one device");
  const std::size_t offset = pending_count_ * sizeof(float);
  CudaStage& stage = *stages_.front();
  const CudaDeviceKeeper keeper(stage.device());
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage.device().MakeCurrent()));
  std::memcpy(stage.host() + offset, bucket.data(), bucket.size_bytes());
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage.CopyToDevice(offset, bucket.size_bytes())));
  parts_.front() = {stage.device_address(offset), stage.stream()};
  LOCKSTEP_RETURN_IF_ERROR(
      communicator_->AllReduce(parts_, bucket.size(), DataType::kFloat32, limits));
  LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage.CopyToHost(offset, bucket.size_bytes())));
  entries_.push_back({bucket, offset});
  pending_count_ += bucket.size();
  return OkStatus();
}

Status NcclReducer::EnqueueOnDevices(std::span<const DeviceBucket> buckets, Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  ++sequence_;
  LOCKSTEP_CHECK(buckets.size() == stages_.size(), "one bucket for each device is needed");
  in_place_count_ += buckets.front().element_count;
  const CallContext context = ContextOf(buckets.front().element_count, deadline);
  const Status sent = SumInPlace(buckets, LimitsOf(deadline));
  return sent.ok() ? sent : Fail(context, sent.error());
}

// In the stages' streams, of which Finish sees the end; their memory is not used.
Status NcclReducer::SumInPlace(std::span<const DeviceBucket> buckets, const WaitLimits& limits) {
  const CudaDeviceKeeper keeper(stages_.front()->device());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(FromDevice(stages_[i]->device().MakeCurrent()));
    last_made_[i] = buckets[i].made;
    if (buckets[i].made != nullptr) {
      LOCKSTEP_RETURN_IF_ERROR(FromDevice(stages_[i]->WaitForEvent(buckets[i].made)));
    }
    parts_[i] = {buckets[i].address, stages_[i]->stream()};
  }
  return communicator_->AllReduce(
      parts_, buckets.front().element_count, buckets.front().type, limits);
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
  const CallContext context = ContextOf(pending_count_ + in_place_count_, deadline);
  const Status done = AwaitStages(LimitsOf(deadline), [] {});
  if (!done.ok()) {
    return Fail(context, done.error());
  }
  for (const Entry& entry : entries_) {
    std::memcpy(
        entry.bucket.data(), stages_.front()->host() + entry.offset, entry.bucket.size_bytes());
  }
  entries_.clear();
  pending_count_ = 0;
  in_place_count_ = 0;
  return OkStatus();
}

Result<std::optional<TimePoint>> NcclReducer::FinishOnDevices(std::span<void* const> after,
                                                              const std::function<Status()>& follow,
                                                              Deadline deadline) {
  if (failure_.has_value()) {
    return *failure_;
  }
  // As long as most steps take: what comes next is what the devices wait for. Choice.
  constexpr Duration kSpin = std::chrono::milliseconds(20);
  const CallContext context = ContextOf(in_place_count_, deadline);
  LOCKSTEP_CHECK(after.size() == stages_.size(), "one stream for each device is needed");
  LOCKSTEP_CHECK(entries_.empty(), "some buckets are in host memory, others on devices");
  std::optional<TimePoint> made_at;
  WaitLimits limits = LimitsOf(deadline);
  limits.spin = kSpin;
  Status done = OrderBehind(after, follow);
  if (done.ok()) {
    done = AwaitStages(limits, [&] {
      if (!made_at.has_value() && IsLastMade()) {
        made_at = SteadyNow();
      }
    });
  }
  if (!done.ok()) {
    return Fail(context, done.error()).error();
  }
  in_place_count_ = 0;
  return made_at;
}

// The stages wait for it in turn, so that their end is the end of all.
Status NcclReducer::OrderBehind(std::span<void* const> after,
                                const std::function<Status()>& follow) {
  const auto for_each_stage = [&](Status (CudaStage::*order)(CudaStreamHandle)) -> Status {
    const CudaDeviceKeeper keeper(stages_.front()->device());
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      LOCKSTEP_RETURN_IF_ERROR(FromDevice(stages_[i]->device().MakeCurrent()));
      LOCKSTEP_RETURN_IF_ERROR(FromDevice((*stages_[i].*order)(after[i])));
    }
    return OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(for_each_stage(&CudaStage::MakeWait));
  LOCKSTEP_RETURN_IF_ERROR(follow());
  return for_each_stage(&CudaStage::WaitFor);
}

// Whether the engines have made the last bucket; what has failed there is the stages' to tell.
bool NcclReducer::IsLastMade() const {
  const CudaDeviceKeeper keeper(stages_.front()->device());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const CudaDevice& device = stages_[i]->device();
    if (last_made_[i] != nullptr && device.MakeCurrent().ok() && device.IsAhead(last_made_[i])) {
      return false;
    }
  }
  return true;
}

// Calls `look` each time before it looks itself.
Status NcclReducer::AwaitStages(const WaitLimits& limits, const std::function<void()>& look) {
  return WaitUntil(
      [&]() -> Result<bool> {
        look();
        const Result<bool> are_idle = AreIdle();
        // NCCL's word first: a stream that was stopped because of an error is idle, too.
        LOCKSTEP_RETURN_IF_ERROR(communicator_->Check());
        return are_idle;
      },
      limits);
}

// All streams are asked, so that an error can name those that are late.
Result<bool> NcclReducer::AreIdle() {
  busy_.clear();
  const CudaDeviceKeeper keeper(stages_.front()->device());
  for (const std::unique_ptr<CudaStage>& stage : stages_) {
    LOCKSTEP_RETURN_IF_ERROR(FromDevice(stage->device().MakeCurrent()));
    const Result<bool> is_idle = stage->IsIdle();
    if (!is_idle.ok()) {
      return FromDevice(is_idle.error()).error();
    }
    if (!*is_idle) {
      busy_.push_back(stage->device().uuid());
    }
  }
  return busy_.empty();
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
  const Error error = Named(met, control_, loss_patience_);
  std::string what = "with NCCL on " + NamesOf(ground_->devices) + ": " + error.message();
  if (error.code() == ErrorCode::kTimeout) {
    what += ", and NCCL does not say which rank is late";
  }
  if (!busy_.empty()) {
    what += "; not finished on " + Listed(busy_);
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
  FreeNcclStages(*ground_, std::exchange(stages_, {}));
}

// --- Joining ---

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
                 "rank 0 could not get a unique id from NCCL; NCCL says: " +
                     std::string(invitation.words.data()) +
                     (is_host ? ". " + DescribeSystem() : ""));
  }
  if (!sent.ok()) {
    return sent.error();
  }
  return invitation.id;
}

// Joins, and tries what a step will do. The communicator is null where that failed: nothing uses
// the stages then, unless the ground is stuck.
Status JoinAndTry(const NcclReducerOptions& options,
                  const NcclSeat& seat,
                  const NcclStages& stages,
                  const WaitLimits& limits,
                  std::unique_ptr<NcclCommunicator>* communicator) {
  const std::vector<std::size_t> counts = TrialCounts(options.bucket_counts);
  LOCKSTEP_ASSIGN_OR_RETURN(NcclStages trial, MakeTrialStages(*options.ground, counts));
  auto joined = NcclCommunicator::Join(options.ground, seat, limits);
  Status tried = joined.ok() ? OkStatus() : Status(joined.error());
  if (joined.ok()) {
    *communicator = std::move(joined).value();
    tried = SumOnes(seat.world_size, communicator->get(), stages, limits);
  }
  if (tried.ok()) {
    tried = TrySums(seat.world_size, counts, communicator->get(), trial, limits);
  }
  if (!tried.ok() && *communicator != nullptr) {
    (*communicator)->NoteFailure();
    communicator->reset();
  }
  FreeNcclStages(*options.ground, std::move(trial));
  return tried;
}

Result<std::unique_ptr<GradientReducer>> JoinAll(const NcclReducerOptions& options,
                                                 Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const nccl::UniqueId id, ExchangeIdentity(options, deadline));
  LOCKSTEP_ASSIGN_OR_RETURN(NcclStages stages,
                            MakeNcclStages(*options.ground, options.element_count * sizeof(float)));
  const WaitLimits limits{deadline, [&options]() -> Status {
                            if (options.is_stopped && options.is_stopped()) {
                              return Error(ErrorCode::kAborted, "joining was stopped on request");
                            }
                            return options.control->CheckHealth();
                          }};
  const auto own = static_cast<int>(options.ground->devices.size());
  const NcclSeat seat{id, options.control->rank() * own, options.control->world_size() * own};
  std::unique_ptr<NcclCommunicator> communicator;
  if (const Status tried = JoinAndTry(options, seat, stages, limits, &communicator); !tried.ok()) {
    FreeNcclStages(*options.ground, std::move(stages));
    return tried.error();
  }
  return std::unique_ptr<GradientReducer>(
      std::make_unique<NcclReducer>(options, std::move(stages), std::move(communicator)));
}

// Whom NCCL calls gone is there, as far as `control` knows: it is joining that failed.
bool IsUnfounded(const Error& cause, Communicator* control) {
  return cause.code() == ErrorCode::kPeerLost && control->CheckHealth().ok();
}

// The others are told the cause alone: each says for itself what it was about.
Error FailJoining(const NcclReducerOptions& options, const Error& met, TimePoint begin) {
  const Error cause = Named(met, options.control, options.loss_patience);
  const Communicator& control = *options.control;
  const bool is_own = cause.code() == ErrorCode::kUnavailable ||
                      (options.can_do_without && IsUnfounded(cause, options.control));
  const Error told(is_own ? ErrorCode::kInternal : cause.code(), cause.ToString());
  const bool is_loss = told.code() == ErrorCode::kPeerLost;
  options.control->Abort(options.can_do_without && !is_loss
                             ? Error(ErrorCode::kAborted, told.message())
                             : AsTold(told));
  return Error(told).Wrap("rank " + std::to_string(control.rank()) + ": joining " +
                          std::to_string(control.world_size()) + " ranks with NCCL " +
                          options.ground->library->VersionText() + " on " +
                          NamesOf(options.ground->devices) + ", epoch " +
                          std::to_string(options.epoch.value()) + ", failed after " +
                          std::to_string(ToSeconds(SteadyNow() - begin)) + " s");
}

}  // namespace

Result<std::unique_ptr<GradientReducer>> JoinAgreedNccl(const NcclReducerOptions& options,
                                                        Deadline deadline) {
  const TimePoint begin = SteadyNow();
  Result<std::unique_ptr<GradientReducer>> joined = JoinAll(options, deadline);
  if (joined.ok()) {
    return joined;
  }
  return FailJoining(options, joined.error(), begin);
}

Result<std::unique_ptr<GradientReducer>> JoinNccl(const NcclReducerOptions& options,
                                                  Deadline deadline) {
  const TimePoint begin = SteadyNow();
  NcclOffer offer = OfferOf(options.ground);
  offer.is_staged = options.element_count > 0;
  const Result<NcclAgreement> agreement = AgreeOnNccl(offer, options.control, deadline);
  if (!agreement.ok()) {
    return FailJoining(options, agreement.error(), begin);
  }
  if (agreement->obstacle.has_value()) {
    return FailJoining(options, agreement->obstacle->ToError(), begin);
  }
  return JoinAgreedNccl(options, deadline);
}

}  // namespace lockstep::runtime
