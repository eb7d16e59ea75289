#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "operator/cli/run_folder/earlier_run.h"

namespace lockstep::control {

// A run as its folder tells of it.
struct KnownRun {
  std::string directory;
  std::string job;
  int pid = 0;  // of the `lockstep run` that works on it; 0: none does
  EarlierRun record;
};

// "running", "succeeded", "failed", ...; "unfinished": it was killed before it could say.
std::string StateOf(const KnownRun& run);

// The run in the folder `name`, or in runs/`name` below the working directory.
// Errors: kNotFound, kCorrupt.
Result<KnownRun> FindRun(const std::string& name);

// All runs in folders directly below `parent`, by name; those that cannot be read are left out.
std::vector<KnownRun> RunsBelow(const std::string& parent);

// What to say where `parent` has none, and what to type where it is a run itself.
std::string WhyNoRuns(const std::string& parent);

// Whether a run may have `directory`, which need not be there: not where runs lie below it and it
// is none. Errors: kInvalidArgument.
Status CheckNewDirectory(const std::string& directory);

// A table for people, a header first.
std::string FormatRuns(const std::vector<KnownRun>& runs);

}  // namespace lockstep::control
