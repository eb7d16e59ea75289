#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"

namespace lockstep::runtime {

// Sums gradients in host memory by the communicator's own all-reduce, so in its order, on a thread
// of its own beside the one that computes:
//
//   computing   | backward: c | b      | a      | Finish        |
//   this thread |             | sum c  | sum b      | sum a     |
//
// From Enqueue() to Finish() the communicator's calls are this thread's. Destroyed in between, it
// aborts the communicator, so that neither the others nor the bucket's memory wait for it.
class ThreadedReducer final : public GradientReducer {
 public:
  // `sum_count_max`: of buckets and totals between two calls of Finish (checked). `communicator`
  // must outlive this object.
  ThreadedReducer(Communicator* communicator, std::size_t sum_count_max);
  ~ThreadedReducer() override;

  ThreadedReducer(const ThreadedReducer&) = delete;
  ThreadedReducer& operator=(const ThreadedReducer&) = delete;

  Status Enqueue(std::span<float> bucket, Deadline deadline) override;
  Status EnqueueTotals(std::span<double> totals, Deadline deadline) override;
  Status Finish(Deadline deadline) override;

  bool SumsBeside() const override { return true; }

  void Abort(const Error& reason) noexcept override { communicator_->Abort(reason); }

  const char* BackendName() const override { return communicator_->BackendName(); }

  std::string Detail() const override { return communicator_->Detail(); }

 private:
  struct Sum {
    void* data;
    std::size_t count;
    DataType type;
    Deadline deadline;
  };

  Status Post(const Sum& sum);
  void Work();

  Communicator* const communicator_;
  const std::size_t sum_count_max_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Sum> waiting_;
  bool is_in_step_ = false;  // something was enqueued since the last Finish
  bool is_summing_ = false;
  bool is_ending_ = false;
  std::optional<Error> failure_;

  std::jthread thread_;  // last: it uses the rest
};

}  // namespace lockstep::runtime
