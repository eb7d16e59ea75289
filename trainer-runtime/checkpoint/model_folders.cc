#include "trainer-runtime/checkpoint/model_folders.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace lockstep::runtime {
namespace {

bool IsNumberAfter(std::string_view prefix, std::string_view name) {
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

}  // namespace

std::string FolderOfModel(const std::string& directory, int rank) {
  const std::string name = std::string(kModelPrefix) + std::to_string(rank);
  return (std::filesystem::path(directory) / name).string();
}

Status CheckDirectoryKind(const std::string& directory, bool several) {
  std::error_code error;
  std::string found;  // the first by name: the same on every rank
  for (auto at = std::filesystem::directory_iterator(directory, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (IsNumberAfter(several ? kStepPrefix : kModelPrefix, name)) {
      found = found.empty() ? name : std::min(found, name);
    }
  }
  if (error && error.value() != ENOENT && error.value() != ENOTDIR) {
    return SystemError(error.value(), "read folder " + directory);
  }
  if (found.empty()) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               directory + " holds " + found +
                   (several ? ", a checkpoint of one model for all ranks, but strategy Independent "
                              "trains a model for each rank. Only the other strategies can resume "
                              "from this directory"
                            : ", the checkpoints of one rank's own model, but this strategy trains "
                              "one model for all ranks. Only strategy Independent can resume from "
                              "this directory") +
                   "; to start afresh, name another directory")
      .WithField("spec.training.checkpoint.directory");
}

}  // namespace lockstep::runtime
