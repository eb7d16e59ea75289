#include "trainer-runtime/strategy/synchronous_strategy.h"

#include <cstddef>
#include <mutex>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

Status Enqueue(std::span<float> gradients, const Bucket& bucket, const StepExchange& exchange) {
  const auto offset = static_cast<std::size_t>(bucket.element_offset);
  const auto count = static_cast<std::size_t>(bucket.element_count);
  LOCKSTEP_CHECK(offset + count <= gradients.size(), "bucket plan exceeds the gradients");
  return exchange.reducer->Enqueue(gradients.subspan(offset, count), exchange.deadline);
}

// Hands each bucket to the reducer as soon as backward has made it on all replicas. What fails is
// kept for the end: an engine finishes its backward whatever becomes of the sums.
class EarlySums {
 public:
  EarlySums(ReplicaSet* replicas, const std::vector<Bucket>& buckets, const StepExchange& exchange)
      : replicas_(replicas),
        buckets_(buckets),
        exchange_(exchange),
        progress_(buckets, replicas->count()) {}

  // As GradientsReady. The lock is held while a bucket is added up and handed over: the order of
  // the buckets is that of all ranks, and replicas come to the end of a layer at about one time.
  // Thread: any.
  void Ready(int64_t offset, int64_t count) {
    const std::lock_guard lock(mutex_);
    const std::size_t complete_count = progress_.Ready(offset, count);
    for (; next_ < complete_count; ++next_) {
      const Bucket& bucket = buckets_[next_];
      replicas_->SumGradients(static_cast<std::size_t>(bucket.element_offset),
                              static_cast<std::size_t>(bucket.element_count));
      if (status_.ok()) {
        status_ = Enqueue(replicas_->engine(0).Gradients(), bucket, exchange_);
      }
    }
  }

  // When all replicas are done. Errors: those of Enqueue.
  Status End() {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_CHECK(next_ == buckets_.size(), "gradients that no engine has made");
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
  ReplicaSet* const replicas_;
  const std::vector<Bucket>& buckets_;
  const StepExchange& exchange_;
  std::mutex mutex_;  // guards what follows
  BucketProgress progress_;
  std::size_t next_ = 0;  // of the plan
  Status status_;
};

Result<StepResult> ComputeBeside(ReplicaStep step, ReplicaSet* replicas, EarlySums* early) {
  step.on_ready = [early](int64_t offset, int64_t count) { early->Ready(offset, count); };
  return replicas->ComputeGradients(step);
}

}  // namespace

Result<StepOutcome> SynchronousStrategy::Step(const ReplicaStep& step,
                                              const StepExchange& exchange) {
  StepOutcome outcome;
  const TimePoint begin = SteadyNow();
  EarlySums early(replicas_, buckets_.beside, exchange);
  const bool is_early = exchange.reducer->SumsBeside() && replicas_->IsInHostMemory();
  Result<StepResult> sums =
      is_early ? ComputeBeside(step, replicas_, &early) : replicas_->ComputeGradients(step);
  if (!sums.ok()) {
    early.GiveUp(sums.error());
    return std::move(sums).error();
  }
  outcome.sums = *sums;
  const TimePoint computed = SteadyNow();
  outcome.compute = computed - begin;
  LOCKSTEP_RETURN_IF_ERROR(is_early ? early.End() : SumAfterwards(exchange));
  if (exchange.totals) {
    LOCKSTEP_RETURN_IF_ERROR(
        exchange.reducer->EnqueueTotals(exchange.totals(outcome.sums), exchange.deadline));
  }
  LOCKSTEP_RETURN_IF_ERROR(exchange.reducer->Finish(exchange.deadline));
  outcome.exchange = SteadyNow() - computed;
  return outcome;
}

Status SynchronousStrategy::SumAfterwards(const StepExchange& exchange) {
  replicas_->SumGradients();
  // The plan is the reducer's, on all ranks: others may be early where this one is not.
  const bool sums_beside = exchange.reducer->SumsBeside();
  for (const Bucket& bucket : sums_beside ? buckets_.beside : buckets_.afterwards) {
    LOCKSTEP_RETURN_IF_ERROR(Enqueue(replicas_->engine(0).Gradients(), bucket, exchange));
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
