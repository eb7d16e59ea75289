#include "operator/cli/run_folder/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kModelPrefix =
    "rank-";  // a folder for each rank with a model of its own

std::optional<int64_t> NumberAfter(std::string_view prefix, const std::string& name) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + prefix.size(), end, number);
  return error == std::errc() && stopped == end && number >= 0 ? std::optional(number)
                                                               : std::nullopt;
}

// Whether there may be a checkpoint: one that cannot be looked into may be whole.
bool HoldsSomething(const std::filesystem::path& folder) {
  std::error_code no_folder;
  std::error_code unknown;
  return std::filesystem::is_directory(folder, no_folder) &&
         !std::filesystem::is_empty(folder, unknown);
}

}  // namespace

Result<std::vector<FoundCheckpoint>> NewestCheckpointsIn(const std::string& folder) {
  std::optional<FoundCheckpoint> newest;
  std::vector<std::pair<int64_t, std::string>> of_models;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (const auto step = NumberAfter(kStepPrefix, name)) {
      if ((!newest || Step(*step) > newest->step) && HoldsSomething(at->path())) {
        newest = FoundCheckpoint{Step(*step), at->path().string(), {}};
      }
    } else if (const auto rank = NumberAfter(kModelPrefix, name)) {
      of_models.emplace_back(*rank, at->path().string());
    }
  }
  const bool is_absent = folder.empty() || error.value() == ENOENT || error.value() == ENOTDIR;
  if (error && !is_absent) {
    return SystemError(error.value(), "reading the checkpoints in " + folder);
  }
  std::vector<FoundCheckpoint> found;
  if (newest) {
    found.push_back(*newest);
  }
  for (const auto& [rank, model] : of_models) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> its_own,
                              NewestCheckpointsIn(model));
    for (FoundCheckpoint checkpoint : its_own) {
      checkpoint.rank = rank;
      found.push_back(std::move(checkpoint));
    }
  }
  return found;
}

bool HoldsNoWork(const std::string& folder) {
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    if (at->path().filename() != "fence.json") {
      return false;
    }
  }
  return !error;
}

std::optional<Step> HighestOf(const std::vector<FoundCheckpoint>& newest) {
  const auto highest = std::ranges::max_element(newest, {}, &FoundCheckpoint::step);
  return highest == newest.end() ? std::nullopt : std::optional(highest->step);
}

std::optional<Step> LowestOf(const std::vector<FoundCheckpoint>& newest) {
  const auto lowest = std::ranges::min_element(newest, {}, &FoundCheckpoint::step);
  return lowest == newest.end() ? std::nullopt : std::optional(lowest->step);
}

std::string StepsBetween(Step lowest, Step highest) {
  const std::string last = std::to_string(highest.value());
  return lowest == highest ? "step " + last
                           : "steps " + std::to_string(lowest.value()) + " to " + last;
}

std::string ModelsWithout(const std::vector<FoundCheckpoint>& newest, std::size_t model_count) {
  std::string ranks;
  for (int64_t rank = 0; !newest.empty() && rank < static_cast<int64_t>(model_count); ++rank) {
    if (std::ranges::find(newest, rank, &FoundCheckpoint::rank) == newest.end()) {
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
  }
  return ranks.empty() ? "" : ", no checkpoint of model " + ranks;
}

}  // namespace lockstep::control
