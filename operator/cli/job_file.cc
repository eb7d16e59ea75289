#include "operator/cli/job_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/file.h"

namespace lockstep::control {

Manifest ReadManifestFile(const std::string& path) {
  auto text = ReadFile(path, kManifestBytesMax);
  if (text.ok()) {
    return ReadManifest(*text, path);
  }
  Manifest manifest;
  manifest.file = path;
  manifest.problems.push_back(ManifestProblem{0, 0, std::move(text).error()});
  return manifest;
}

Result<TrainingJob> ReadSingleJob(const std::string& path) {
  Manifest manifest = ReadManifestFile(path);
  if (!manifest.ok()) {
    std::string problems = FormatProblems(manifest);
    if (problems.ends_with('\n')) {
      problems.pop_back();
    }
    return Error(ErrorCode::kInvalidArgument, std::move(problems));
  }
  if (manifest.jobs.size() != 1) {
    return Error(
        ErrorCode::kInvalidArgument,
        path + ": expected one TrainingJob, found " + std::to_string(manifest.jobs.size()));
  }
  return std::move(manifest.jobs.front());
}

std::string FolderOf(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  return error ? "." : absolute.parent_path().string();
}

}  // namespace lockstep::control
