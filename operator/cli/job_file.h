#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/api/job_manifest.h"
#include "operator/cli/arguments.h"

namespace lockstep::control {

struct EarlierRun;

// Reads a manifest file, "-" being standard input, with the source's changes made to it. A file
// that cannot be read is a problem of the manifest like any other.
Manifest ReadManifestFile(const JobSource& source);

// The text of a file, "-" being standard input, which may come back a little longer than
// kManifestBytesMax. Errors: as ReadFile.
Result<std::string> ReadManifestText(const std::string& file);

// One job and where it comes from.
struct SingleJob {
  TrainingJob job;
  std::string folder;                // absolute: where relative paths in the manifest start
  std::vector<std::string> skipped;  // one line for each document that is no job
  Json written;                      // what `job` was decoded from: changes, and no defaults
};

// The one job of an earlier run, with the source's changes made to it. Errors: as ReadSingleJob.
Result<SingleJob> ReadEarlierJob(const EarlierRun& earlier, const JobSource& source);

// The one job of the source. Errors: kInvalidArgument with one line for each problem.
Result<SingleJob> ReadSingleJob(const JobSource& source);

// "job.yaml:12: ConfigMap "settings" skipped": one line each.
std::vector<std::string> FormatSkipped(const Manifest& manifest);

// The folder of the file, absolute, the working directory for standard input: where relative paths
// in it start.
std::string FolderOf(const std::string& path);

}  // namespace lockstep::control
