#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/cli/run_folder/checkpoint_folder.h"

namespace lockstep::control {

// What a run directory tells of the run that was in it before.
struct EarlierRun {
  std::string job_text;  // the manifest it ran, changes included, as JSON; no defaults of training
  std::string folder;    // where that manifest's relative paths start
  std::string outcome;   // "succeeded", "stopped", ...; empty: it did not come to its end
  int64_t steps = 0;
  std::optional<int64_t> steps_total;
};

// The file of a run directory that holds the job: "RUN/job.json".
std::string JobRecordFile(const std::string& run_directory);

// Notes the job of a run, for whoever goes on with it. `written`: the document that `job` was
// decoded from: of `spec.training` what is there is noted and no defaults, since whoever replaces
// an optimizer or a layer must not meet those of the one before. Errors: those of writing a file.
Status WriteJobRecord(const std::string& run_directory,
                      const TrainingJob& job,
                      const Json& written,
                      const std::string& folder);

// Reads what an earlier run left. Errors: kNotFound (no run was there), kCorrupt.
Result<EarlierRun> ReadEarlierRun(const std::string& run_directory);

// The job's name; empty where it has none.
std::string JobNameOf(const EarlierRun& earlier);

// A run of another job stands in its folder, and going on would write over it.
// Errors: kInvalidArgument, with both names.
Status CheckSameJob(const EarlierRun& earlier,
                    const std::string& run_directory,
                    const TrainingJob& job);

// The folder of its checkpoints, where it was a training; empty for a command, which knows its own.
std::string CheckpointFolderOf(const EarlierRun& earlier, const std::string& run_directory);

// "an earlier run in this folder stopped after 20 of 120 steps; its newest checkpoint is of step
// 20". `newest`: what lies in its checkpoint folder now, of each model; `is_empty`: nothing does,
// not even of a command, which writes what it wants.
std::string DescribeEarlierRun(const EarlierRun& earlier,
                               const std::vector<FoundCheckpoint>& newest,
                               bool is_empty);

}  // namespace lockstep::control
