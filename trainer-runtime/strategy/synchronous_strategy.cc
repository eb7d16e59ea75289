#include "trainer-runtime/strategy/synchronous_strategy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

#include "common/base/check.h"
#include "trainer-runtime/strategy/finite.h"
#include "trainer-runtime/strategy/gradient_clip.h"

namespace lockstep::runtime {
namespace {

// What is summed over the ranks of a step: the gradients of each replica where they were made, or
// those of all in the first one's memory on the host.
class OwnGradients {
 public:
  OwnGradients(ReplicaSet* replicas, const StepExchange& exchange, bool is_on_device)
      : replicas_(replicas), exchange_(exchange), is_on_device_(is_on_device) {}

  // `made`: each replica's event, as DeviceBucket has it. Precondition: in the host's memory all
  // replicas have made them. Thread: any, one at a time.
  Status Enqueue(const Bucket& bucket, std::span<void* const> made) const {
    const auto offset = static_cast<std::size_t>(bucket.element_offset);
    const auto count = static_cast<std::size_t>(bucket.element_count);
    const std::span<float> image = replicas_->engine(0).Gradients();
    LOCKSTEP_CHECK(offset + count <= image.size(), "the bucket plan is larger than the gradients");
    if (!is_on_device_) {
      return exchange_.reducer->Enqueue(image.subspan(offset, count), exchange_.deadline);
    }
    std::vector<DeviceBucket> buckets;
    for (int replica = 0; replica < replicas_->count(); ++replica) {
      const EngineBuffer& buffer = replicas_->gradient_buffer(replica);
      buckets.push_back({.address = static_cast<float*>(buffer.address) + offset,
                         .element_count = count,
                         .made = made[static_cast<std::size_t>(replica)]});
    }
    return exchange_.reducer->EnqueueOnDevices(buckets, exchange_.deadline);
  }

  // Adds the bucket of all replicas up, where the reducer does not.
  void SumOverReplicas(const Bucket& bucket) const {
    if (!is_on_device_) {
      replicas_->SumGradients(static_cast<std::size_t>(bucket.element_offset),
                              static_cast<std::size_t>(bucket.element_count));
    }
  }

 private:
  ReplicaSet* const replicas_;
  const StepExchange& exchange_;
  const bool is_on_device_;
};

// Whether the sum over the ranks can be made where the gradients of all replicas are.
bool SumsWhereTheyAre(ReplicaSet* replicas, const GradientReducer& reducer) {
  const std::vector<int> devices = replicas->Devices();
  return !devices.empty() && reducer.SumsOnDevices(devices);
}

// Hands each bucket to the reducer as soon as backward has made it on all replicas. What fails is
// kept for the end: an engine finishes its backward whatever becomes of the sums.
class EarlySums {
 public:
  EarlySums(ReplicaSet* replicas,
            const std::vector<Bucket>& buckets,
            const StepExchange& exchange,
            const OwnGradients& gradients)
      : buckets_(buckets),
        exchange_(exchange),
        gradients_(gradients),
        progress_(buckets, replicas->count()),
        made_(buckets.size(), std::vector<void*>(static_cast<std::size_t>(replicas->count()))) {}

  // As ReplicaStep::on_ready. Each bucket keeps its own event of each replica: one that is ahead
  // has told of others by the time that the last replica tells of this. The lock is held while a
  // bucket is added up and handed over: the order of the buckets is that of all ranks, and replicas
  // come to the end of a layer at about one time. Thread: any.
  void Ready(int replica, int64_t offset, int64_t count, void* made) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = next_; i < buckets_.size(); ++i) {
      const int64_t begin = buckets_[i].element_offset;
      if (begin >= offset && begin < offset + count) {
        made_[i][static_cast<std::size_t>(replica)] = made;
      }
    }
    const std::size_t complete_count = progress_.Ready(offset, count);
    for (; next_ < complete_count; ++next_) {
      const Bucket& bucket = buckets_[next_];
      gradients_.SumOverReplicas(bucket);
      if (status_.ok()) {
        status_ = gradients_.Enqueue(bucket, made_[next_]);
      }
    }
  }

  // When all replicas are done. Errors: those of Enqueue.
  Status End() {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_CHECK(next_ == buckets_.size(), "the engines have not computed all gradients");
    return status_;
  }

  // When a replica has failed. The other ranks hear of it, and when this returns the gradients are
  // the caller's again.
  void GiveUp(const Error& failure) {
    const std::lock_guard lock(mutex_);
    if (next_ == 0) {
      return;  // nobody waits for more yet
    }
    exchange_.reducer->Abort(Error(ErrorCode::kAborted, failure.ToString()));
    [[maybe_unused]] const Status aborted = exchange_.reducer->Finish(exchange_.deadline);
  }

 private:
  const std::vector<Bucket>& buckets_;
  const StepExchange& exchange_;
  const OwnGradients& gradients_;
  std::mutex mutex_;  // guards what follows
  BucketProgress progress_;
  std::vector<std::vector<void*>> made_;  // [buckets][replicas], events
  std::size_t next_ = 0;                  // of the plan
  Status status_;
};

}  // namespace

Result<StepOutcome> SynchronousStrategy::Step(const ReplicaStep& asked,
                                              const StepExchange& exchange) {
  is_on_device_ = SumsWhereTheyAre(replicas_, *exchange.reducer);
  if (asked.update.has_value() && is_on_device_ && replicas_->count() == 1) {
    return StepGuarded(asked, exchange);
  }
  StepOutcome outcome;
  const TimePoint begin = SteadyNow();
  const OwnGradients gradients(replicas_, exchange, is_on_device_);
  EarlySums early(replicas_, buckets_.beside, exchange, gradients);
  const bool is_early =
      exchange.reducer->SumsBeside() && (is_on_device_ || replicas_->IsInHostMemory());
  ReplicaStep step = asked;
  step.stay_on_device = is_on_device_;
  step.update.reset();  // the host's to apply
  step.is_awaited = !is_on_device_;
  if (is_early) {
    step.on_ready = std::bind_front(&EarlySums::Ready, &early);
    step.ready_at = begins_;
  }
  const Result<StepResult> sums = replicas_->ComputeGradients(step);
  if (!sums.ok()) {
    early.GiveUp(sums.error());
    return sums.error();
  }
  outcome.sums = *sums;
  const TimePoint computed = SteadyNow();
  outcome.compute = computed - begin;
  LOCKSTEP_RETURN_IF_ERROR(is_early ? early.End() : SumAfterwards(exchange));
  if (is_on_device_) {
    return FinishOnDevices(exchange, begin);
  }
  if (exchange.totals) {
    LOCKSTEP_RETURN_IF_ERROR(
        exchange.reducer->EnqueueTotals(exchange.totals(outcome.sums), exchange.deadline));
  }
  LOCKSTEP_RETURN_IF_ERROR(exchange.reducer->Finish(exchange.deadline));
  outcome.exchange = SteadyNow() - computed;
  return outcome;
}

// The order is that of all ranks: the sums behind the buckets, and the totals while the devices are
// still at work. Nothing changes the state before all of it has come to its end.
Result<StepOutcome> SynchronousStrategy::FinishOnDevices(const StepExchange& exchange,
                                                         TimePoint begin) {
  std::vector<DeviceBucket> sums;
  std::vector<void*> after;
  for (int replica = 0; replica < replicas_->count(); ++replica) {
    const DeviceSums& own = replicas_->sums(replica);
    sums.push_back({own.numbers.address, kStepSumCount, own.made, DataType::kFloat64});
    after.push_back(own.after);
  }
  LOCKSTEP_RETURN_IF_ERROR(exchange.reducer->EnqueueOnDevices(sums, exchange.deadline));
  if (exchange.totals) {
    LOCKSTEP_RETURN_IF_ERROR(
        exchange.reducer->EnqueueTotals(exchange.totals({}), exchange.deadline));
  }
  const auto measure = [this] {
    return replicas_->ForEach([this](int replica) { return replicas_->engine(replica).Measure(); });
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<TimePoint> made_at,
                            exchange.reducer->FinishOnDevices(after, measure, exchange.deadline));
  StepOutcome outcome;
  const Status taken = replicas_->ForEach([&](int replica) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult result, replicas_->engine(replica).TakeStep());
    if (replica == 0) {
      outcome.sums = result;  // all have the same
    }
    return OkStatus();
  });
  LOCKSTEP_RETURN_IF_ERROR(taken);
  outcome.are_sums_of_all = true;
  length_ = outcome.sums.gradient_length;
  const TimePoint end = SteadyNow();
  const TimePoint computed = made_at.value_or(end);
  outcome.compute = computed - begin;
  outcome.exchange = end - computed;
  return outcome;
}

// The update is taken before the host hears anything of the step, so nothing that follows may fail
// for the sake of somebody else: that the meeting is over is heard before.
Result<StepOutcome> SynchronousStrategy::StepGuarded(const ReplicaStep& asked,
                                                     const StepExchange& exchange) {
  double nothing = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      exchange.reducer->EnqueueTotals(std::span(&nothing, 1), exchange.deadline));
  LOCKSTEP_RETURN_IF_ERROR(exchange.reducer->Finish(exchange.deadline));
  ReplicaStep step = asked;
  step.stay_on_device = true;
  const TimePoint begin = SteadyNow();
  StepOutcome outcome;
  LOCKSTEP_ASSIGN_OR_RETURN(outcome.sums, replicas_->ComputeGradients(step));
  outcome.compute = SteadyNow() - begin;
  outcome.is_guarded = true;
  length_ = outcome.sums.gradient_length;
  if (exchange.totals) {
    exchange.totals(outcome.sums);  // the sum over one rank
  }
  return outcome;
}

Status SynchronousStrategy::SumAfterwards(const StepExchange& exchange) {
  const OwnGradients gradients(replicas_, exchange, is_on_device_);
  if (!is_on_device_) {
    replicas_->SumGradients();
  }
  // The plan is the reducer's, on all ranks: others may be early where this one is not.
  const bool sums_beside = exchange.reducer->SumsBeside();
  std::vector<void*> made;
  for (int replica = 0; replica < replicas_->count(); ++replica) {
    made.push_back(replicas_->sums(replica).made);
  }
  for (const Bucket& bucket : sums_beside ? buckets_.beside : buckets_.afterwards) {
    LOCKSTEP_RETURN_IF_ERROR(gradients.Enqueue(bucket, made));
  }
  return OkStatus();
}

Result<std::span<const float>> SynchronousStrategy::ReadGradients() {
  if (is_on_device_) {
    LOCKSTEP_RETURN_IF_ERROR(replicas_->engine(0).BringToHost(EnginePart::kGradients));
  }
  return image();
}

Result<bool> SynchronousStrategy::AreGradientsFinite() {
  return is_on_device_ ? std::isfinite(length_) : AllFinite(image());
}

Status SynchronousStrategy::ClipGradients(double norm_max) {
  Engine& first = replicas_->engine(0);
  if (!is_on_device_) {
    runtime::ClipGradients(norm_max, first.Gradients());
    return OkStatus();
  }
  const std::optional<float> factor = ClipFactor(norm_max, length_);
  if (!factor.has_value()) {
    return OkStatus();
  }
  return replicas_->ForEach(
      [&](int replica) { return replicas_->engine(replica).ScaleGradients(*factor); });
}

Status SynchronousStrategy::BringGradientsTo(int replica) {
  if (is_on_device_) {
    return OkStatus();
  }
  Engine& engine = replicas_->engine(replica);
  if (replica > 0) {
    const std::span<const float> sum = image();
    std::copy(sum.begin(), sum.end(), engine.Gradients().begin());
  }
  return engine.BringToDevice(EnginePart::kGradients);
}

}  // namespace lockstep::runtime
