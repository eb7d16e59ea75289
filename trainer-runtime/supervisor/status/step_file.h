#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"

namespace lockstep::runtime {

// Names the file in which programs count the steps of their optimizers. The Python package
// lockstep_hang writes it, for programs on torch.
inline constexpr const char* kStepFileVariable = "LOCKSTEP_STEP_FILE";

struct OptimizerSteps {
  int64_t count = 0;         // of all processes that stood for the local rank; never decreases
  std::optional<Step> step;  // of the training; null where the program cannot know it

  friend bool operator==(const OptimizerSteps&, const OptimizerSteps&) = default;
};

// Such a file, in this process's memory: nothing of it is on a disk, or stays when this process is
// killed. It has a place for each local rank. Thread: any.
class StepFile {
 public:
  // Errors: as memfd_create(2).
  static Result<StepFile> Make(int process_count);

  // Where a program of the same user opens it while this object lives.
  std::string path() const;

  // What is no number of steps reads as 0 and null.
  OptimizerSteps Read(int local_rank) const;

  // The program is about to start anew, and the step is old news. The count stays: by it the
  // program knows that it is not the first.
  void ForgetStep(int local_rank);

 private:
  explicit StepFile(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace lockstep::runtime
