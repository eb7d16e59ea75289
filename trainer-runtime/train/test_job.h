#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/checkpoint/checkpoint_store.h"
#include "trainer-runtime/data/dataset.h"
#include "trainer-runtime/train/test_gang.h"

namespace lockstep::runtime {

// A small job for tests of the trainer, on the reference engine. Where LOCKSTEP_TEST_ON_DEVICE is
// set in the environment that is as far from the host as one on a GPU.

inline constexpr int64_t kSampleCount = 50;
inline constexpr int64_t kTestSampleCount = 11;
inline constexpr int kClassCount = 3;

// Two-pixel images whose class is told by which pixel is brighter: learnable in a few steps.
Dataset MakeSamples(int64_t count);

TrainingSpec MakeSpec(int64_t step_count);

Result<std::unique_ptr<Engine>> MakeTestEngine(const TrainingSpec& spec);

// Data sets and engine of all tests here.
struct Samples {
  Dataset train = MakeSamples(kSampleCount);
  Dataset test = MakeSamples(kTestSampleCount);

  GangParts Parts() const;
};

const Samples& TestSamples();

Gang MakeRanks(int count, const TrainingSpec& spec);

std::unique_ptr<GangRank> MakeRank(const TrainingSpec& spec,
                                   CheckpointStore* checkpoints = nullptr);

// A folder of its own, gone with this object.
class CheckpointFolder {
 public:
  CheckpointFolder();
  ~CheckpointFolder();

  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  std::unique_ptr<CheckpointStore> Open(int64_t epoch);

  const std::string& path() const { return path_; }

  // From now on no checkpoint can be written: a file stands where its folder would be made.
  void MakeUnwritable();

 private:
  std::string path_;
  std::unique_ptr<Logger> logger_ = MakeNullLogger();
  SystemClock clock_;
};

}  // namespace lockstep::runtime
