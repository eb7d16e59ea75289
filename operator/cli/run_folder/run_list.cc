#include "operator/cli/run_folder/run_list.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/printable.h"
#include "operator/cli/run_folder/checkpoint_folder.h"
#include "operator/cli/run_folder/run_directory.h"
#include "operator/cli/terminal/console.h"
#include "operator/cli/terminal/display_columns.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kRunsMax = 10'000;  // choice: beyond it a table helps nobody

Result<KnownRun> LookAt(const std::string& directory) {
  KnownRun run;
  LOCKSTEP_ASSIGN_OR_RETURN(run.record, ReadEarlierRun(directory));
  run.directory = directory;
  run.job = JobNameOf(run.record);
  run.pid = HolderOf(directory).value_or(0);
  return run;
}

// Of one that has not told its end, what is known to be done: its newest checkpoint.
std::string StepsOf(const KnownRun& run) {
  if (run.pid != 0 || run.record.outcome.empty()) {
    const auto newest = NewestCheckpointsIn(CheckpointFolderOf(run.record, run.directory));
    if (!newest.ok()) {
      return "?";
    }
    const std::optional<Step> lowest = LowestOf(*newest);
    const std::optional<Step> highest = HighestOf(*newest);
    // Of several models from the one that is the least far.
    return !highest ? "-"
           : lowest == highest
               ? std::to_string(highest->value()) + "+"
               : std::to_string(lowest->value()) + "-" + std::to_string(highest->value()) + "+";
  }
  return !run.record.steps_total
             ? "-"
             : std::to_string(run.record.steps) + "/" + std::to_string(*run.record.steps_total);
}

}  // namespace

std::string StateOf(const KnownRun& run) {
  if (run.pid != 0) {
    return "running";
  }
  return run.record.outcome.empty() ? "unfinished" : run.record.outcome;
}

Result<KnownRun> FindRun(const std::string& name) {
  const auto given = LookAt(name);
  if (given.ok() || given.error().code() != ErrorCode::kNotFound) {
    return given;
  }
  auto below = LookAt("runs/" + name);
  if (below.ok()) {
    return below;
  }
  const bool is_path = name.find('/') != std::string::npos;
  return is_path ? given.error()
                 : Error(given.error().code(),
                         given.error().message() + "; there is no run in runs/" + name + " either");
}

std::vector<KnownRun> RunsBelow(const std::string& parent) {
  std::vector<KnownRun> runs;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(parent, error);
       !error && at != std::filesystem::directory_iterator() && runs.size() < kRunsMax;
       at.increment(error)) {
    if (auto run = LookAt(at->path().string()); run.ok()) {
      runs.push_back(*std::move(run));
    }
  }
  std::sort(runs.begin(), runs.end(), [](const KnownRun& a, const KnownRun& b) {
    return a.directory < b.directory;
  });
  return runs;
}

std::string WhyNoRuns(const std::string& parent) {
  const std::string none = "no runs below " + parent;
  std::error_code error;
  if (!std::filesystem::exists(JobRecordFile(parent), error)) {
    return none;
  }
  std::filesystem::path folder(std::filesystem::absolute(parent, error).lexically_normal());
  folder = folder.has_filename() ? folder : folder.parent_path();
  return none + ": this folder is itself a run; lockstep ps " +
         std::filesystem::relative(folder.parent_path(), error).string() +
         " lists it, lockstep logs " + parent + " shows what it prints";
}

Status CheckNewDirectory(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::exists(JobRecordFile(directory), error)) {
    return OkStatus();
  }
  const auto runs = RunsBelow(directory);
  return runs.empty()
             ? OkStatus()
             : Status(
                   Error(ErrorCode::kInvalidArgument,
                         "--dir " + directory + ": this folder holds other runs, such as " +
                             runs.front().directory +
                             ", and is not a run itself; name a folder in it, or leave --dir out"));
}

std::string FormatRuns(const std::vector<KnownRun>& runs) {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows = {{"RUN", "JOB", "STATE", "STEPS", "PID"}};
  for (const KnownRun& run : runs) {
    rows.push_back({Printable(run.directory),
                    Printable(run.job),
                    StateOf(run),
                    StepsOf(run),
                    run.pid == 0 ? "-" : std::to_string(run.pid)});
  }
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayColumns(row[i]));
    }
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      text += row[i] + std::string(widths[i] + 2 - DisplayColumns(row[i]), ' ');
    }
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace lockstep::control
