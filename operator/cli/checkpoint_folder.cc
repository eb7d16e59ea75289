#include "operator/cli/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace lockstep::control {
namespace {

constexpr std::string_view kPrefix = "step-";

std::optional<Step> StepOf(const std::string& name) {
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stopped == end && step >= 0 ? std::optional(Step(step))
                                                             : std::nullopt;
}

}  // namespace

Result<std::optional<Step>> NewestCheckpointIn(const std::string& folder) {
  std::optional<Step> newest;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    newest = std::max(newest, StepOf(at->path().filename().string()));
  }
  const bool is_absent = folder.empty() || error.value() == ENOENT || error.value() == ENOTDIR;
  if (error && !is_absent) {
    return SystemError(error.value(), "reading the checkpoints in " + folder);
  }
  return newest;
}

}  // namespace lockstep::control
