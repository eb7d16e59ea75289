#include "operator/cli/job_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/base/io/file.h"
#include "operator/api/queue/training_queue.h"
#include "operator/cli/run_folder/earlier_run.h"
#include "operator/convert/conversion.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kStandardInput = "-";

Result<std::string> ReadStandardInput() {
  std::string text;
  std::array<char, 65536> buffer{};
  while (text.size() <= kManifestBytesMax) {  // ReadManifest refuses what is longer
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return SystemError(errno, "reading standard input");
    }
    if (got == 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::vector<ManifestEdit> EditsOf(const JobSource& source) {
  std::vector<ManifestEdit> edits;
  if (!source.settings.empty()) {
    const auto schema = std::make_shared<const JobSchema>();  // read once for all, never written
    for (const Setting& setting : source.settings) {
      edits.push_back({"--set", [schema, setting](Json* document) {
                         return ApplySetting(setting, *schema, document);
                       }});
    }
  }
  if (source.workers) {
    edits.push_back({"--workers", [count = *source.workers](Json* document) {
                       return ApplyWorkers(count, document);
                     }});
  }
  return edits;
}

// Jobs of other operators are no TrainingJobs, but become some.
void HintAtConvert(Manifest* manifest) {
  const bool has_foreign = std::ranges::any_of(manifest->documents, IsForeignJob);
  for (ManifestProblem& problem : manifest->problems) {
    const Error& error = problem.error;
    if (has_foreign && error.field() == "kind") {
      problem.error =
          Error(error.code(),
                error.message() + "; to convert a " + ForeignKinds() + ", run lockstep convert")
              .WithField("kind");
    }
  }
}

Result<SingleJob> OnlyJobOf(Manifest manifest, const std::string& folder) {
  if (!manifest.ok()) {
    std::string problems = FormatProblems(manifest);
    if (problems.ends_with('\n')) {
      problems.pop_back();
    }
    return Error(ErrorCode::kInvalidArgument, std::move(problems));
  }
  if (manifest.jobs.size() != 1) {
    return Error(ErrorCode::kInvalidArgument,
                 manifest.file + ": expected one TrainingJob, found " +
                     std::to_string(manifest.jobs.size()));
  }
  std::vector<std::string> skipped = FormatSkipped(manifest);
  for (const SkippedDocument& queue : manifest.queues) {
    skipped.push_back(manifest.file + ":" + std::to_string(queue.line) + ": TrainingQueue \"" +
                      queue.name + "\" skipped: queues are used only on a cluster");
  }
  return SingleJob{std::move(manifest.jobs.front()),
                   folder,
                   std::move(skipped),
                   std::move(manifest.documents.front())};
}

}  // namespace

Result<std::string> ReadManifestText(const std::string& file) {
  return file == kStandardInput ? ReadStandardInput() : ReadFile(file, kManifestBytesMax);
}

Manifest ReadManifestFile(const JobSource& source) {
  const std::string name = source.file == kStandardInput ? "standard input" : source.file;
  auto text = ReadManifestText(source.file);
  if (text.ok()) {
    Manifest manifest = ReadManifest(*text, name, EditsOf(source));
    HintAtConvert(&manifest);
    return manifest;
  }
  Manifest manifest;
  manifest.file = name;
  manifest.problems.push_back(ManifestProblem{0, 0, std::move(text).error()});
  return manifest;
}

Result<SingleJob> ReadSingleJob(const JobSource& source) {
  return OnlyJobOf(ReadManifestFile(source), FolderOf(source.file));
}

Result<SingleJob> ReadEarlierJob(const EarlierRun& earlier, const JobSource& source) {
  return OnlyJobOf(ReadManifest(earlier.job_text, "job.json", EditsOf(source)), earlier.folder);
}

std::vector<std::string> FormatSkipped(const Manifest& manifest) {
  std::vector<std::string> lines;
  for (const SkippedDocument& skipped : manifest.skipped) {
    lines.push_back(manifest.file + ":" + std::to_string(skipped.line) + ": " + skipped.kind +
                    (skipped.name.empty() ? "" : " \"" + skipped.name + "\"") +
                    " skipped: only TrainingJobs and TrainingQueues are read");
  }
  return lines;
}

std::string FolderOf(const std::string& path) {
  std::error_code error;
  const auto absolute = path == kStandardInput
                            ? std::filesystem::current_path(error) / "-"
                            : std::filesystem::absolute(path, error).lexically_normal();
  return error ? "." : absolute.parent_path().string();
}

}  // namespace lockstep::control
