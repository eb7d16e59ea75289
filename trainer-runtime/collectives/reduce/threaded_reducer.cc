#include "trainer-runtime/collectives/reduce/threaded_reducer.h"

#include "common/base/check.h"

namespace lockstep::runtime {

ThreadedReducer::ThreadedReducer(Communicator* communicator, std::size_t sum_count_max)
    : communicator_(communicator), sum_count_max_(sum_count_max), thread_([this] { Work(); }) {}

ThreadedReducer::~ThreadedReducer() {
  bool is_given_up = false;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    is_given_up = is_in_step_;
    waiting_.clear();
    changed_.notify_all();
  }
  if (is_given_up) {
    communicator_->Abort(
        Error(ErrorCode::kAborted, "the step was abandoned before its gradients were summed"));
  }
}

Status ThreadedReducer::Enqueue(std::span<float> bucket, Deadline deadline) {
  return Post({bucket.data(), bucket.size(), DataType::kFloat32, deadline});
}

Status ThreadedReducer::EnqueueTotals(std::span<double> totals, Deadline deadline) {
  return Post({totals.data(), totals.size(), DataType::kFloat64, deadline});
}

Status ThreadedReducer::Post(const Sum& sum) {
  const std::lock_guard lock(mutex_);
  if (failure_.has_value()) {
    return *failure_;
  }
  LOCKSTEP_CHECK(waiting_.size() < sum_count_max_, "more buckets than planned");
  waiting_.push_back(sum);
  is_in_step_ = true;
  changed_.notify_all();
  return OkStatus();
}

// Waits past `deadline` where it is earlier than that of a sum: while one runs, its memory is not
// the caller's. Each ends by its own.
Status ThreadedReducer::Finish(Deadline /*deadline*/) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && !is_summing_; });
  is_in_step_ = false;
  return failure_.has_value() ? Status(*failure_) : OkStatus();
}

void ThreadedReducer::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (is_ending_) {
      return;
    }
    const Sum sum = waiting_.front();
    waiting_.pop_front();
    is_summing_ = true;
    lock.unlock();
    const Status summed =
        communicator_->AllReduce(sum.data, sum.count, sum.type, ReduceOp::kSum, sum.deadline);
    lock.lock();
    is_summing_ = false;
    if (!summed.ok()) {
      failure_ = summed.error();
      waiting_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace lockstep::runtime
