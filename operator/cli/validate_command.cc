#include <cstdio>
#include <string>

#include "operator/cli/commands.h"
#include "operator/cli/job_file.h"
#include "operator/cli/summary/summary.h"

namespace lockstep::control {

int RunValidate(const ValidateArguments& arguments) {
  int exit_code = kCliSucceeded;
  for (const std::string& file : arguments.files) {
    const Manifest manifest = ReadManifestFile({file, {}, {}});
    for (const std::string& line : FormatSkipped(manifest)) {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
    std::fputs(FormatWarnings(manifest).c_str(), stderr);
    if (!manifest.ok()) {
      std::fputs(FormatProblems(manifest).c_str(), stderr);
      exit_code = kCliUsage;
      continue;
    }
    std::string names;
    for (const TrainingJob& job : manifest.jobs) {
      names += (names.empty() ? "" : ", ") + job.metadata.name;
    }
    for (const SkippedDocument& queue : manifest.queues) {
      names += (names.empty() ? "queue " : ", queue ") + queue.name;
    }
    std::printf("%s: OK (%s)\n", manifest.file.c_str(), names.c_str());
  }
  return exit_code;
}

}  // namespace lockstep::control
