#include "trainer-runtime/checkpoint/checkpoint_store.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t kOutcomesMax = 64;  // a trainer takes them after each step

CheckpointDirectoryOptions DirectoryOptions(const CheckpointStoreOptions& options) {
  CheckpointDirectoryOptions own;
  own.directory = options.directory;
  own.job_uid = options.writer.job_uid;
  own.keep_count = options.keep_count;
  own.other_job = options.other_job;
  own.logger = options.logger;
  own.clock = options.clock;
  return own;
}

}  // namespace

// The background thread and what it shares with the training thread. The lock is never held while
// a file is touched.
class CheckpointStore::Writer {
 public:
  Writer(CheckpointDirectory* directory, const Clock* clock)
      : directory_(directory),
        clock_(clock),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  void Put(Snapshot snapshot) {
    {
      const std::lock_guard lock(mutex_);
      replaced_count_ += waiting_.has_value() ? 1 : 0;
      unreported_skips_ += waiting_.has_value() ? 1 : 0;
      waiting_ = std::move(snapshot);
    }
    changed_.notify_all();
  }

  std::vector<SaveOutcome> TakeOutcomes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(outcomes_, {});
  }

  Status Flush(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const bool is_done = changed_.wait_until(
        lock, deadline.when(), [this] { return !waiting_.has_value() && !is_writing_; });
    if (!is_done) {
      return Error(ErrorCode::kTimeout, "checkpoint is still being written");
    }
    return newest_status_;
  }

  int64_t replaced_count() const {
    const std::lock_guard lock(mutex_);
    return replaced_count_;
  }

 private:
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return waiting_.has_value(); }) &&
           !stop.stop_requested()) {
      const Snapshot snapshot = *std::exchange(waiting_, std::nullopt);
      is_writing_ = true;
      lock.unlock();
      SaveOutcome outcome = Write(snapshot);
      lock.lock();
      is_writing_ = false;
      newest_status_ = outcome.status;
      outcome.skipped = std::exchange(unreported_skips_, 0);
      if (outcomes_.size() == kOutcomesMax) {
        outcomes_.erase(outcomes_.begin());
      }
      outcomes_.push_back(std::move(outcome));
      changed_.notify_all();
    }
  }

  SaveOutcome Write(const Snapshot& snapshot) {
    SaveOutcome outcome;
    outcome.step = snapshot.step;
    const TimePoint begin = clock_->Now();
    Result<int64_t> bytes = directory_->Publish(snapshot);
    outcome.duration = clock_->Now() - begin;
    if (bytes.ok()) {
      outcome.bytes = *bytes;
    } else {
      outcome.status = std::move(bytes).error();
    }
    return outcome;
  }

  CheckpointDirectory* directory_;
  const Clock* clock_;
  mutable std::mutex mutex_;  // guards all that follows but the thread
  std::condition_variable_any changed_;
  std::optional<Snapshot> waiting_;
  bool is_writing_ = false;
  Status newest_status_;
  std::vector<SaveOutcome> outcomes_;
  int64_t replaced_count_ = 0;
  int64_t unreported_skips_ = 0;
  std::jthread thread_;  // last: it must not start before the rest, nor outlive it
};

Result<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(CheckpointStoreOptions options) {
  LOCKSTEP_CHECK(options.logger != nullptr, "a store needs a logger");
  LOCKSTEP_CHECK(options.clock != nullptr, "a store needs a clock");
  if (options.directory.empty()) {
    return Error(ErrorCode::kInvalidArgument, "checkpoint directory is empty, expected a path");
  }
  if (options.keep_count < 1) {
    return Error(ErrorCode::kInvalidArgument,
                 "keep is " + std::to_string(options.keep_count) + ", expected at least 1");
  }
  return std::unique_ptr<CheckpointStore>(new CheckpointStore(std::move(options)));
}

CheckpointStore::CheckpointStore(CheckpointStoreOptions options)
    : options_(std::move(options)), directory_(DirectoryOptions(options_)) {}

CheckpointStore::~CheckpointStore() = default;

Status CheckpointStore::Claim(Epoch epoch, Incarnation incarnation) {
  options_.writer.epoch = epoch;
  options_.writer.incarnation = incarnation;
  Status claimed = directory_.Claim(options_.writer);
  if (!claimed.ok() && claimed.error().code() == ErrorCode::kResourceExhausted) {
    options_.logger->Warn(
        "the checkpoint directory could not be claimed, because the disk is full; the next save "
        "tries again",
        {{"directory", options_.directory}, {"error", claimed.error().ToString()}});
  } else if (!claimed.ok()) {
    return claimed;
  }
  if (writer_ == nullptr) {
    writer_ = std::make_unique<Writer>(&directory_, options_.clock);
  }
  return OkStatus();
}

bool CheckpointStore::HasSaved(Step step, Epoch epoch, Incarnation incarnation) const {
  WriterIdentity writer = options_.writer;
  writer.epoch = epoch;
  writer.incarnation = incarnation;
  return directory_.Holds(step, writer);
}

void CheckpointStore::SaveAsync(Snapshot snapshot) {
  LOCKSTEP_CHECK(writer_ != nullptr,
                 "the checkpoint directory must be claimed before the first save");
  writer_->Put(std::move(snapshot));
}

std::vector<SaveOutcome> CheckpointStore::TakeOutcomes() {
  return writer_ == nullptr ? std::vector<SaveOutcome>() : writer_->TakeOutcomes();
}

Status CheckpointStore::Flush(Deadline deadline) {
  return writer_ == nullptr ? OkStatus() : writer_->Flush(deadline);
}

Result<std::optional<Snapshot>> CheckpointStore::LoadNewest() {
  return directory_.LoadNewest();
}

int64_t CheckpointStore::replaced_count() const {
  return writer_ == nullptr ? 0 : writer_->replaced_count();
}

}  // namespace lockstep::runtime
