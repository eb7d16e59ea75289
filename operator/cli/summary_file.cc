#include "operator/cli/summary_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
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

}  // namespace

Status CheckSummaryFile(const std::string& file, const std::string& manifest) {
  std::error_code error;
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const auto fail = [&file](const std::string& problem) {
    return Error(ErrorCode::kInvalidArgument, "--summary " + file + ": " + problem);
  };
  if (file.empty() || IsSpecialFile(file)) {
    return OkStatus();
  }
  if (file == "-") {
    return fail("standard output has the lines for people; /dev/stdout adds the summary to them");
  }
  if (std::filesystem::is_directory(file, error)) {
    return fail("that is a folder, expected a file");
  }
  if (std::filesystem::equivalent(file, manifest, error)) {  // false where one is not there
    return fail("that is the manifest of the job, which would be lost");
  }
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return fail("its folder: " + std::string(std::strerror(errno)));
  }
  return OkStatus();
}

}  // namespace lockstep::control
