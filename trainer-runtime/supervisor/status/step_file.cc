#include "trainer-runtime/supervisor/status/step_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

namespace lockstep::runtime {
namespace {

// Of each process, as lockstep_hang/steps.py has them: the count, the step, the process that
// writes.
using Numbers = std::array<int64_t, 3>;
constexpr int64_t kUnknownStep = -1;
constexpr int64_t kNumberMax = int64_t{1} << 53;  // JSON has no larger one

off_t PlaceOf(int local_rank) {
  return static_cast<off_t>(sizeof(Numbers)) * local_rank;
}

}  // namespace

Result<StepFile> StepFile::Make(int process_count) {
  UniqueFd file(::memfd_create("lockstep-steps", MFD_CLOEXEC));
  if (!file.is_open()) {
    return SystemError(errno, "create the file of optimizer steps");
  }
  if (::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0 ||
      ::ftruncate(file.get(), PlaceOf(process_count)) != 0) {
    return SystemError(errno, "prepare the file of optimizer steps");
  }
  return StepFile(std::move(file));
}

std::string StepFile::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
}

OptimizerSteps StepFile::Read(int local_rank) const {
  Numbers numbers{};
  OptimizerSteps steps;
  const ssize_t size = ::pread(file_.get(), numbers.data(), sizeof(numbers), PlaceOf(local_rank));
  if (size == sizeof(numbers)) {  // else the program has cut the file off
    const auto [count, step, writer] = numbers;
    steps.count = std::clamp<int64_t>(count, 0, kNumberMax);
    steps.step = step > 0 && step <= kNumberMax ? std::optional(Step(step)) : std::nullopt;
  }
  return steps;
}

void StepFile::ForgetStep(int local_rank) {
  // Fails only for want of memory, which the file has already.
  [[maybe_unused]] const ssize_t written =
      ::pwrite(file_.get(),
               &kUnknownStep,
               sizeof(kUnknownStep),
               PlaceOf(local_rank) + static_cast<off_t>(sizeof(int64_t)));
}

}  // namespace lockstep::runtime
