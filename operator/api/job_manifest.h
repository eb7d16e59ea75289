#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Larger texts are refused: the API server takes no object above 1.5 MiB either.
inline constexpr std::size_t kManifestBytesMax = 1024 * 1024;

// Documents in one file. Choice: far above what anybody writes by hand.
inline constexpr std::size_t kManifestDocumentsMax = 64;

// Problems told of one file; the others are counted. Choice: more than anybody reads.
inline constexpr std::size_t kManifestProblemsMax = 100;

// One thing wrong with a manifest, and where it stands. Lines and columns count from 1; 0: unknown.
struct ManifestProblem {
  int line = 0;
  int column = 0;
  Error error;
  std::string origin{};  // who gave the field its value ("--set"); empty: the file
  std::string item{};    // "items[2]" of a list; empty: the document is no list's
};

// A change to a job's document before it is decoded.
struct ManifestEdit {
  std::string origin;  // who asks for it: "--set"
  // Returns the path of the field that it changed. Errors are problems of the manifest.
  std::function<Result<std::string>(Json* document)> apply;
};

// A document that is no job: of another kind and API group, or a queue.
struct SkippedDocument {
  int line = 0;
  std::string kind;
  std::string name;  // empty: it has none
};

// What a manifest file says.
struct Manifest {
  std::string file;                       // as given to ReadManifest; for messages
  std::vector<TrainingJob> jobs;          // in file order; complete only if there is no problem
  std::vector<Json> documents;            // of the jobs, changes included, as they were decoded
  std::vector<SkippedDocument> queues;    // TrainingQueues, in file order; checked as jobs are
  std::vector<SkippedDocument> skipped;   // others beside jobs or queues, in file order
  std::vector<ManifestProblem> problems;  // ordered by line, the last may count those left out
  std::vector<ManifestProblem> warnings;  // what the server takes, and hardly is meant

  bool ok() const { return problems.empty(); }
};

// Reads TrainingJobs and TrainingQueues from YAML (as kubectl reads it, `---` between documents) or
// JSON, one by one or in lists. Strict, and all problems at once: syntax with line and column,
// duplicate keys, another kind or version, everything that DecodeTrainingJob and
// DecodeTrainingQueue find, job names used twice, a file without any; queues that are below
// themselves, and jobs that name a queue with others below it, where all are in the file. What
// belongs to another API group (a ConfigMap, a volume claim) is skipped beside them. `edits` are
// made to every job, in their order.
Manifest ReadManifest(std::string_view text,
                      std::string_view file,
                      const std::vector<ManifestEdit>& edits = {});

// One line per problem, "file:line: field: message"; columns only where the syntax is at fault. In
// place of file and line stands who changed the field.
// Empty when there is none.
std::string FormatProblems(const Manifest& manifest);

// The same of the warnings, each called one.
std::string FormatWarnings(const Manifest& manifest);

}  // namespace lockstep::control
