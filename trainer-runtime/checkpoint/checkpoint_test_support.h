#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/log.h"
#include "common/base/time.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"

namespace lockstep::runtime {

inline constexpr std::size_t kFileMax = 1 << 20;  // of the files that tests read

// Keeps warnings for a test to look at.
class WarningLog final : public Logger {
 public:
  void Log(LogLevel level, std::string_view message, LogFields fields) override {
    if (level == LogLevel::kWarn) {
      warnings.push_back(FormatLogText(message, fields));
    }
  }

  std::vector<std::string> warnings;
};

// A folder of its own, gone afterwards, and stores in it.
class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "lockstep-checkpoint-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    directory_ = root_ + "/checkpoints";
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  CheckpointStoreOptions Options(const std::string& job_uid = "uid-1") {
    CheckpointStoreOptions options;
    options.directory = directory_;
    options.writer.job_uid = job_uid;
    options.logger = &log_;
    options.clock = &clock_;
    return options;
  }

  std::unique_ptr<CheckpointStore> Open(CheckpointStoreOptions options) {
    return CheckpointStore::Open(std::move(options)).value();
  }

  // A store that may write, as epoch `epoch`.
  std::unique_ptr<CheckpointStore> OpenWriter(int64_t epoch = 1) {
    std::unique_ptr<CheckpointStore> store = Open(Options());
    const Status claimed = store->Claim(Epoch(epoch), Incarnation(0));
    EXPECT_TRUE(claimed.ok()) << claimed.error().ToString();
    return store;
  }

  // Everything in it follows from the step, so a mixture of two is found out.
  static Snapshot SnapshotAt(int64_t step, std::size_t value_count = 6) {
    Snapshot snapshot;
    snapshot.step = Step(step);
    snapshot.cursor = {step / 10, step % 10, step * 96};
    snapshot.seed = 1;
    snapshot.world_size = 3;
    snapshot.ledger = "ledger of " + std::to_string(step);
    for (const char* name : {"layer0/kernel", "layer0/kernel/adam_m"}) {
      NamedTensor tensor{name, {static_cast<int64_t>(value_count)}, {}};
      for (std::size_t i = 0; i < value_count; ++i) {
        tensor.values.push_back(static_cast<float>(step) + static_cast<float>(i) / 8);
      }
      snapshot.tensors.push_back(std::move(tensor));
    }
    return snapshot;
  }

  static Deadline Soon() { return Deadline::After(SteadyNow(), std::chrono::seconds(60)); }

  void SaveAndWait(CheckpointStore* store, int64_t step) {
    store->SaveAsync(SnapshotAt(step));
    const Status flushed = store->Flush(Soon());
    ASSERT_TRUE(flushed.ok()) << flushed.error().ToString();
  }

  // The step that a new process would start from; 0 for none.
  int64_t NewestStep(CheckpointStore* store) {
    const Result<std::optional<Snapshot>> snapshot = store->LoadNewest();
    EXPECT_TRUE(snapshot.ok());
    if (!snapshot->has_value()) {
      return 0;
    }
    const int64_t step = (*snapshot)->step.value();
    EXPECT_EQ(**snapshot, SnapshotAt(step, (*snapshot)->tensors[0].values.size()));
    return step;
  }

  // Names in the checkpoint folder, sorted.
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string FileOf(int64_t step, const std::string& name) {
    const std::string digits = std::to_string(step);
    return directory_ + "/step-" + std::string(8 - digits.size(), '0') + digits + "/" + name;
  }

  std::string root_;
  std::string directory_;
  WarningLog log_;
  SystemClock clock_;
};

}  // namespace lockstep::runtime
