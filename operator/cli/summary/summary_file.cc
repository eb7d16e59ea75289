#include "operator/cli/summary/summary_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace lockstep::control {
namespace {

// A pipe or device: it is written to, and has no folder to be checked.
bool IsSpecialFile(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

// Whether a run reads or writes the file while it lasts, or is resumed from it.
bool IsOfTheRun(const std::string& file, const std::string& run_directory) {
  constexpr std::array<std::string_view, 4> kNames = {
      "job.json", "job.key", "lock", "lockstep.log"};
  std::error_code error;
  const auto given = std::filesystem::weakly_canonical(file, error);
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) {
    std::error_code unknown;
    const auto own = std::filesystem::path(run_directory) / name;
    return (!error && std::filesystem::weakly_canonical(own, unknown) == given) ||
           std::filesystem::equivalent(file, own, unknown);
  });
}

}  // namespace

Status CheckSummaryFile(const std::string& file,
                        const std::string& manifest,
                        const std::string& run_directory) {
  std::error_code error;
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const auto fail = [&file](const std::string& problem) {
    return Error(ErrorCode::kInvalidArgument, "--summary " + file + ": " + problem);
  };
  if (file.empty() || IsSpecialFile(file)) {
    return OkStatus();
  }
  if (file == "-") {
    return fail(
        "standard output shows the summary for people; to add the JSON summary to it, use "
        "/dev/stdout");
  }
  if (std::filesystem::is_directory(file, error)) {
    return fail("a folder found, expected a file");
  }
  if (std::filesystem::equivalent(file, manifest, error)) {  // false where one is not there
    return fail("the manifest of the job found, which would be overwritten; expected another file");
  }
  if (!run_directory.empty() && IsOfTheRun(file, run_directory)) {
    return fail("a file of the run itself found; expected another file");
  }
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return fail("its folder: " + std::string(std::strerror(errno)));
  }
  return OkStatus();
}

}  // namespace lockstep::control
