#include "operator/cli/pods/creation_trouble.h"

#include <utility>

namespace lockstep::control {
namespace {

// Choices: whoever sees the warning has time to make room; a try costs next to nothing.
constexpr std::chrono::seconds kCreationPatience{30};
constexpr Duration kCreationPause = std::chrono::seconds(1);

}  // namespace

void CreationTrouble::Note(const std::optional<Error>& failure, TimePoint now) {
  pause_end_.reset();
  if (!failure) {
    since_.reset();
    return;
  }
  const bool is_new = !since_.has_value();
  since_ = since_.value_or(now);
  if (failure->code() == ErrorCode::kInvalidArgument) {
    verdict_ = failure->ToString();
  } else if (now - *since_ >= kCreationPatience) {
    verdict_ = failure->ToString() + " (for " + std::to_string(kCreationPatience.count()) + " s)";
  } else {
    pause_end_ = now + kCreationPause;
    if (is_new) {
      warning_ = failure->ToString() + "; lockstep tries again for " +
                 std::to_string(kCreationPatience.count()) + " s";
    }
  }
}

std::optional<std::string> CreationTrouble::TakeWarning() {
  return std::exchange(warning_, std::nullopt);
}

}  // namespace lockstep::control
