#pragma once

#include <string>

#include "common/base/result.h"
#include "operator/api/manifest.h"

namespace lockstep::control {

// Reads a manifest file. A file that cannot be read is a problem of the manifest like any other.
Manifest ReadManifestFile(const std::string& path);

// The one job of the file at `path`. Errors: kInvalidArgument with one line for each problem.
Result<TrainingJob> ReadSingleJob(const std::string& path);

// The folder of the file, absolute: where relative paths in it start.
std::string FolderOf(const std::string& path);

}  // namespace lockstep::control
