#include "trainer-runtime/engine/torch/testing/fake_torch_device.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "trainer-runtime/engine/torch/torch_calls.h"

namespace lockstep::runtime {
namespace {

// One launch of a graph, on a thread that stands until it is asked for something further on.
class Replay {
 public:
  explicit Replay(const std::function<Status()>& work)
      : thread_([this, work] {
          StandAt(std::nullopt);
          LOCKSTEP_CHECK(WithTorch(work).ok(), "work that was taken down has failed");
          const std::lock_guard lock(mutex_);
          is_over_ = true;
          news_.notify_all();
        }) {}

  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  bool IsOwnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // The work has come to a mark. Thread: its own.
  void StandAt(std::optional<std::size_t> mark) {
    std::unique_lock lock(mutex_);
    if (mark.has_value()) {
      passed_.push_back(*mark);
      target_ = target_ == mark ? std::nullopt : target_;
      news_.notify_all();
    }
    news_.wait(lock, [this] { return target_.has_value(); });
  }

  // Lets it go on to that mark, unless it has been there. Thread: the engine's.
  void RunTo(std::size_t mark) {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return is_over_ || std::ranges::count(passed_, mark) > 0; };
    if (!is_there()) {
      target_ = mark;
      news_.notify_all();
      news_.wait(lock, is_there);
    }
  }

  static constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::size_t> passed_;
  std::optional<std::size_t> target_;  // what somebody waits for
  bool is_over_ = false;
  std::jthread thread_;  // last: the others outlive it
};

class FakeQueue;

struct FakeEvent {
  FakeQueue* queue;
  std::size_t number;
  bool is_recorded = false;  // and not waited for since
  bool is_behind = false;    // the replay, not in it
};

// What the device has been given: all of it is done, but for a replay.
class FakeQueue {
 public:
  explicit FakeQueue(DeviceProbe* probe) : probe_(probe) {}

  DeviceProbe* probe() const { return probe_; }

  void Launch(const std::function<Status()>& work) {
    ++probe_->launch_count;
    Finish();
    for (FakeEvent& event : events_) {
      event.is_recorded = false;
    }
    replay_ = std::make_unique<Replay>(work);
  }

  // What comes next comes behind it.
  void Finish() {
    if (replay_ != nullptr) {
      replay_->RunTo(Replay::kEnd);
      replay_.reset();
    }
  }

  FakeEvent* event(std::size_t number) {
    while (events_.size() <= number) {
      events_.push_back({this, events_.size()});
    }
    return &events_[number];
  }

  void Record(FakeEvent* event) {
    const bool is_replayed = replay_ != nullptr && replay_->IsOwnThread();
    event->is_recorded = true;
    event->is_behind = !is_replayed;
    if (is_replayed) {
      replay_->StandAt(event->number);
    }
  }

  void Await(FakeEvent* event) {
    const bool is_behind = event->is_recorded && event->is_behind;
    if (probe_->marks_late && replay_ != nullptr && !is_behind) {
      ++probe_->void_wait_count;
      return;
    }
    if (replay_ != nullptr) {
      replay_->RunTo(is_behind ? Replay::kEnd : event->number);
    }
    probe_->void_wait_count += event->is_recorded ? 0 : 1;
    event->is_recorded = probe_->marks_late && is_behind;  // one mark for all waits then
  }

 private:
  DeviceProbe* probe_;
  std::deque<FakeEvent> events_;    // whose addresses stay
  std::unique_ptr<Replay> replay_;  // of the last launch, which may not be at its end
};

class FakeGraph final : public DeviceGraph {
 public:
  FakeGraph(FakeQueue* queue, std::function<Status()> work)
      : queue_(queue), work_(std::move(work)) {
    ++queue_->probe()->graph_count;
  }

  FakeGraph(const FakeGraph&) = delete;
  FakeGraph& operator=(const FakeGraph&) = delete;

  // Launches in flight come to their end by themselves.
  ~FakeGraph() override {
    queue_->Finish();
    --queue_->probe()->graph_count;
  }

  Status Launch() override {
    queue_->Launch(work_);
    return OkStatus();
  }

 private:
  FakeQueue* queue_;
  std::function<Status()> work_;
};

class FakeTorchDevice final : public TorchDevice, HostPinning, GraphRecorder {
 public:
  explicit FakeTorchDevice(DeviceProbe* probe)
      : probe_(probe), host_(MakeHostDevice(HostMemory::kApart)), queue_(probe) {}

  at::Device place() const override { return host_->place(); }

  bool IsTheHostsMemory() const override { return false; }

  MemoryKind memory() const override { return host_->memory(); }

  std::string Describe() const override { return "a double"; }

  std::shared_ptr<void> Enter() override {
    queue_.Finish();
    return nullptr;
  }

  void* stream_after() const override { return probe_; }

  std::shared_ptr<void> EnterAfter() override {
    queue_.Finish();
    ++probe_->is_after;
    return {probe_, [](DeviceProbe* probe) { --probe->is_after; }};
  }

  void* mark(std::size_t number) override { return queue_.event(number); }

  void Mark(std::size_t number) override { queue_.Record(queue_.event(number)); }

  bool MarksAtLaunch() override { return !probe_->marks_late; }

  // Later, so that whoever does not wait for it has what was there before, and whoever changes what
  // it is from too early has that.
  void CopyBeside(const at::Tensor& to, const at::Tensor& from, std::size_t /*behind*/) override {
    ++probe_->copy_count;
    probe_->copy_fetch_count = probe_->fetch_count;
    probe_->hasty_copy_count += std::exchange(are_copies_finished_, false) ? 0 : 1;
    copies_.emplace_back(to, from);
  }

  void AwaitCopies() override {
    for (const auto& [to, from] : std::exchange(copies_, {})) {
      at::Tensor(to).copy_(from);
    }
  }

  void FinishCopies() override {
    AwaitCopies();
    are_copies_finished_ = true;
  }

  Status Update(const OptimizerSpec& optimizer,
                int64_t update_number,
                const DeviceState& state) override {
    ++probe_->update_count;
    return host_->Update(optimizer, update_number, state);
  }

  Status UpdateGuarded(const OptimizerSpec& optimizer,
                       const DeviceRecords& records,
                       const DeviceState& state) override {
    ++probe_->guarded_count;
    return host_->UpdateGuarded(optimizer, records, state);
  }

  void Fetch(const at::Tensor& numbers, std::span<std::byte> bytes) override {
    queue_.Finish();
    ++probe_->fetch_count;
    probe_->fetch_count_after += probe_->is_after;
    host_->Fetch(numbers, bytes);
  }

  HostPinning* pinning() override { return this; }

  GraphRecorder* recorder() override { return this; }

 private:
  Result<HostFloats> Allocate(std::size_t count) override {
    if (probe_->refuses_pinning) {
      return Error(ErrorCode::kResourceExhausted, "no more than 64 KiB may be locked");
    }
    ++probe_->pinned_count;
    const std::shared_ptr<float[]> memory = OnHeap(count);
    return HostFloats(memory.get(), [probe = probe_, memory](const float*) {
      --probe->pinned_count;  // the memory goes with this call
    });
  }

  Result<std::shared_ptr<void>> Pin(std::span<float> memory) override {
    if (probe_->refuses_pinning) {
      return Error(ErrorCode::kResourceExhausted, "no more than 64 KiB may be locked");
    }
    ++probe_->pinned_count;
    return std::shared_ptr<void>(memory.data(),
                                 [probe = probe_](const void*) { --probe->pinned_count; });
  }

  Result<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work) override {
    ++probe_->record_count;
    if (probe_->refuses_recording) {
      return Error(ErrorCode::kInternal, "operation not permitted when stream is capturing");
    }
    return std::unique_ptr<DeviceGraph>(std::make_unique<FakeGraph>(&queue_, work));
  }

  DeviceProbe* probe_;
  std::unique_ptr<TorchDevice> host_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to, from
  bool are_copies_finished_ = true;                        // as far as the host knows
  FakeQueue queue_;
};

}  // namespace

void AwaitFakeEvent(void* made) {
  auto* const event = static_cast<FakeEvent*>(made);
  event->queue->Await(event);
}

std::unique_ptr<TorchDevice> MakeFakeTorchDevice(DeviceProbe* probe) {
  return std::make_unique<FakeTorchDevice>(probe);
}

}  // namespace lockstep::runtime
