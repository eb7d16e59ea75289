#include "operator/cli/run_folder/earlier_run.h"

#include <utility>
#include <vector>

#include "common/base/io/file.h"
#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "operator/api/job/encode.h"
#include "operator/api/job_manifest.h"
#include "operator/cli/run_folder/run_directory.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kSummaryBytesMax = 64 * 1024 * 1024;  // choice: of a run with many restarts

std::string TextOf(const Json& document, const char* key) {
  return document.contains(key) && document[key].is_string() ? document[key].get<std::string>()
                                                             : "";
}

std::optional<int64_t> CountOf(const Json& document, const char* key) {
  return document.contains(key) && document[key].is_number_integer()
             ? std::optional(document[key].get<int64_t>())
             : std::nullopt;
}

// How it ended, where it came to an end: what is missing or strange is left empty.
void ReadEnd(const std::string& run_directory, EarlierRun* earlier) {
  const auto text = ReadRegularFile(run_directory + "/summary.json", kSummaryBytesMax);
  const auto summary = ParseJson(text.ok() ? *text : NotedEnd(run_directory));
  if (summary.ok() && summary->is_object()) {
    earlier->outcome = TextOf(*summary, "outcome");
    earlier->steps = CountOf(*summary, "steps").value_or(0);
    earlier->steps_total = CountOf(*summary, "stepsTotal");
  }
}

}  // namespace

std::string JobRecordFile(const std::string& run_directory) {
  return run_directory + "/job.json";
}

Status WriteJobRecord(const std::string& run_directory,
                      const TrainingJob& job,
                      const Json& written,
                      const std::string& folder) {
  Json record = Json::object();
  record["folder"] = folder;
  record["job"] = EncodeTrainingJob(job);
  record["job"].erase("status");
  if (job.spec.training) {
    record["job"]["spec"]["training"] = written.at("spec").at("training");
  }
  return WriteFileAtomically(JobRecordFile(run_directory), DumpJsonPretty(record) + "\n");
}

Result<EarlierRun> ReadEarlierRun(const std::string& run_directory) {
  const std::string file = JobRecordFile(run_directory);
  auto text = ReadRegularFile(file, 2 * kManifestBytesMax);
  if (!text.ok()) {
    return Error(ErrorCode::kNotFound,
                 "no run in " + run_directory + ": " + text.error().message());
  }
  const auto record = ParseJson(*text);
  if (!record.ok() || !record->is_object() || !record->contains("job") ||
      TextOf(*record, "folder").empty()) {
    return Error(ErrorCode::kCorrupt, file + " is damaged, or was not written by lockstep run");
  }
  EarlierRun earlier;
  earlier.job_text = DumpJson((*record)["job"]);
  earlier.folder = TextOf(*record, "folder");
  ReadEnd(run_directory, &earlier);
  return earlier;
}

std::string JobNameOf(const EarlierRun& earlier) {
  const auto job = ParseJson(earlier.job_text);
  const bool has_metadata =
      job.ok() && job->is_object() && job->contains("metadata") && (*job)["metadata"].is_object();
  return has_metadata ? TextOf((*job)["metadata"], "name") : "";
}

Status CheckSameJob(const EarlierRun& earlier,
                    const std::string& run_directory,
                    const TrainingJob& job) {
  const std::string name = JobNameOf(earlier);
  if (name == job.metadata.name) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               "--resume " + run_directory + ": that run belongs to the job \"" + name +
                   "\", but the manifest has the job \"" + job.metadata.name +
                   "\", which would overwrite that run; start it without --resume");
}

std::string CheckpointFolderOf(const EarlierRun& earlier, const std::string& run_directory) {
  const auto job = ParseJson(earlier.job_text);
  const auto below = [](const Json* at, const char* key) {
    const bool is_there = at != nullptr && at->is_object() && at->contains(key);
    return is_there ? &at->at(key) : nullptr;
  };
  const Json* const training = below(below(job.ok() ? &*job : nullptr, "spec"), "training");
  if (training == nullptr || !training->is_object()) {
    return "";
  }
  const Json* const checkpoint = below(training, "checkpoint");
  const std::string written =
      below(checkpoint, "directory") != nullptr ? TextOf(*checkpoint, "directory") : "";
  const std::string given = written.empty() ? CheckpointSpec().directory : written;
  return given.starts_with('/') ? given : run_directory + "/" + given;
}

std::string DescribeEarlierRun(const EarlierRun& earlier,
                               const std::vector<FoundCheckpoint>& newest,
                               bool is_empty) {
  std::string text = "an earlier run in this folder ";
  text += earlier.outcome.empty() ? "did not finish" : earlier.outcome;
  // A run of a moment may have ended before anybody heard how many steps it was to have.
  const bool has_trained = earlier.steps_total || earlier.steps > 0;
  if (!earlier.outcome.empty() && has_trained) {
    // A job that was made shorter has more behind it than it asked for.
    const bool has_total = earlier.steps_total && *earlier.steps_total >= earlier.steps;
    text += " after " + std::to_string(earlier.steps) +
            (has_total ? " of " + std::to_string(*earlier.steps_total) : "") + " steps";
  }
  if (!newest.empty()) {
    return text + "; its newest checkpoint is of " +
           StepsBetween(*LowestOf(newest), *HighestOf(newest));
  }
  if (!has_trained) {
    return text;
  }
  if (!CheckpointFolderOf(earlier, "").empty()) {
    return text + "; it has no checkpoint";
  }
  // A command may keep its checkpoints elsewhere.
  return is_empty ? text + "; LOCKSTEP_CHECKPOINT_DIR is empty now" : text;
}

}  // namespace lockstep::control
