#include "trainer-runtime/strategy/replica_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

StepResult SumOf(const std::vector<StepResult>& results) {
  StepResult sum;
  for (const StepResult& result : results) {
    sum.loss_sum += result.loss_sum;
    sum.correct_count += result.correct_count;
    sum.overflow_count += result.overflow_count;
  }
  if (results.size() == 1) {
    sum.gradient_length = results.front().gradient_length;
    sum.is_updated = results.front().is_updated;
  }
  return sum;
}

}  // namespace

ReplicaSet::ReplicaSet(std::vector<std::unique_ptr<Engine>> engines)
    : engines_(std::move(engines)),
      buffers_(engines_.size()),
      sums_(engines_.size()),
      outcomes_(engines_.size()) {
  LOCKSTEP_CHECK(!engines_.empty(), "a training process needs at least one replica of the model");
  for (const auto& engine : engines_) {
    gradients_.push_back(engine->Gradients());
    LOCKSTEP_CHECK(gradients_.back().size() == gradients_.front().size(),
                   "the replicas have different models");
    is_in_host_memory_ = is_in_host_memory_ && engine->GradientBuffer().memory == MemoryKind::kHost;
  }
  for (int replica = 1; replica < count(); ++replica) {
    threads_.emplace_back([this, replica] { WorkAs(replica); });
  }
}

Status ReplicaSet::LendGradients(std::span<float> memory) {
  LOCKSTEP_RETURN_IF_ERROR(engine(0).LendGradients(memory));
  gradients_.front() = engine(0).Gradients();
  return OkStatus();
}

std::vector<int> ReplicaSet::Devices() {
  std::vector<int> devices;
  for (const auto& engine : engines_) {
    const EngineBuffer buffer = engine->GradientBuffer();
    if (buffer.memory != MemoryKind::kCuda) {
      return {};
    }
    devices.push_back(buffer.device);
  }
  return devices;
}

ReplicaSet::~ReplicaSet() {
  const std::lock_guard<std::mutex> lock(mutex_);
  work_ = nullptr;
  ++round_;
  changed_.notify_all();
}

// One replica's thread: a round after the other, until one has no work.
void ReplicaSet::WorkAs(int replica) {
  for (uint64_t done = 0;; ++done) {
    const std::function<Status(int)>* work = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return round_ > done; });
      work = work_;
    }
    if (work == nullptr) {
      return;
    }
    Status outcome = (*work)(replica);
    const std::lock_guard<std::mutex> lock(mutex_);
    outcomes_[static_cast<std::size_t>(replica)] = std::move(outcome);
    --busy_count_;
    changed_.notify_all();
  }
}

Status ReplicaSet::ForEach(const std::function<Status(int)>& work) {
  if (count() == 1) {
    return work(0);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    busy_count_ = count() - 1;
    ++round_;
    changed_.notify_all();
  }
  Status own = work(0);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return busy_count_ == 0; });
  outcomes_[0] = std::move(own);
  for (Status& outcome : outcomes_) {
    if (!outcome.ok()) {
      return std::move(outcome);
    }
  }
  return OkStatus();
}

Result<StepResult> ReplicaSet::ComputeGradients(const ReplicaStep& step) {
  LOCKSTEP_CHECK(step.shares.size() == engines_.size(), "one share for each replica is needed");
  LOCKSTEP_CHECK(!step.update.has_value() || count() == 1,
                 "several replicas cannot update before their gradients are summed");
  std::vector<StepResult> results(engines_.size());
  LOCKSTEP_RETURN_IF_ERROR(ForEach([&](int replica) -> Status {
    const auto i = static_cast<std::size_t>(replica);
    const ReplicaShare& share = step.shares[i];
    buffers_[i] = engine(replica).GradientBuffer();
    sums_[i] = engine(replica).Sums();
    StepOptions options{.gradient_scale = step.gradient_scale,
                        .dropout_seed = step.dropout_seed,
                        .first_sample = share.first_sample,
                        .ready_at = step.ready_at,
                        .loss_scale = step.loss_scale,
                        .update = step.update,
                        .is_awaited = step.is_awaited,
                        .is_prefetched = step.is_prefetched};
    if (step.next) {
      options.next = [&step, replica] { return step.next(replica); };
    }
    if (step.on_ready) {
      options.on_ready = [&](int64_t offset, int64_t count, void* made) {
        step.on_ready(replica, offset, count, made);
      };
    }
    LOCKSTEP_ASSIGN_OR_RETURN(results[i], engine(replica).ComputeGradients(share.batch, options));
    return step.stay_on_device ? OkStatus() : engine(replica).BringToHost(EnginePart::kGradients);
  }));
  return SumOf(results);
}

// Each thread adds up one part of the elements:
//
//            part 0    part 1        R replicas, R parts
//   first   [= sum of][= sum of]
//   second  [ column ][ column ]
void ReplicaSet::SumGradients() {
  const std::size_t element_count = gradients_.front().size();
  const std::size_t replica_count = engines_.size();
  [[maybe_unused]] const Status always = ForEach([&](int replica) {
    const auto part = static_cast<std::size_t>(replica);
    const std::size_t begin = part * element_count / replica_count;
    const std::size_t end = (part + 1) * element_count / replica_count;
    SumGradients(begin, end - begin);
    return OkStatus();
  });
}

void ReplicaSet::SumGradients(std::size_t offset, std::size_t count) {
  float* const sum = gradients_.front().data() + offset;
  for (std::size_t other = 1; other < gradients_.size(); ++other) {
    const float* const addend = gradients_[other].data() + offset;
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += addend[i];
    }
  }
}

Status ReplicaSet::SpreadTensors(bool with_slots) {
  const std::vector<TensorView> source = engine(0).Tensors();
  return ForEach([&](int replica) -> Status {
    if (replica == 0) {
      return engine(0).BringToDevice(EnginePart::kState);
    }
    if (!with_slots) {  // those that stay go back with the rest
      LOCKSTEP_RETURN_IF_ERROR(engine(replica).BringToHost(EnginePart::kState));
    }
    const std::vector<TensorView> own = engine(replica).Tensors();
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (with_slots || own[i].kind == TensorKind::kParameter) {
        std::copy(source[i].data.begin(), source[i].data.end(), own[i].data.begin());
      }
    }
    return engine(replica).BringToDevice(EnginePart::kState);
  });
}

}  // namespace lockstep::runtime
