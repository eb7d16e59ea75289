#pragma once

#include <optional>
#include <string>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace lockstep::control {

// The folder of one run: lock, job key, logs of pods and of the run itself, checkpoints, summary.
// At most one run uses a folder at a time; the lock goes with this process, however it ends.
class RunDirectory {
 public:
  // Makes the folder where it is missing, and takes it over where an earlier run has ended: its
  // checkpoints stay. Writes a fresh job key with mode 0600.
  // Errors: kAlreadyExists (a living run holds it, named by its process id once it has noted that),
  // kIo and its kin.
  static Result<RunDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }

  std::string KeyFile() const { return path_ + "/job.key"; }

  std::string LogFile() const { return path_ + "/lockstep.log"; }

  std::string SummaryFile() const { return path_ + "/summary.json"; }

  // Notes how the run ended where there is room on a full disk: behind the process id in the lock.
  Status NoteEnd(const std::string& end) const;

  // The secret that is in the key file.
  const std::string& job_key() const { return job_key_; }

 private:
  RunDirectory(std::string path, UniqueFd lock, std::string job_key)
      : path_(std::move(path)), lock_(std::move(lock)), job_key_(std::move(job_key)) {}

  std::string path_;  // absolute
  UniqueFd lock_;
  std::string job_key_;
};

// Keeps the folder of a run's checkpoints to this process for as long as the result lives, however
// the process ends. The folder is made where it is missing.
// Errors: kAlreadyExists (a living run of this machine holds it, named by its process id), kIo and
// its kin.
Result<UniqueFd> LockCheckpoints(const std::string& folder);

// What NoteEnd left in a run's folder; empty: nothing.
std::string NotedEnd(const std::string& directory);

// The process that holds the lock of a run's folder; null when none does. It takes no lock itself:
// a run that starts at this moment must not find it taken.
std::optional<int> HolderOf(const std::string& directory);

// "runs/JOB-20261121T102203Z" below `working_directory`, with "-2", "-3", ... where that exists.
std::string DefaultRunDirectory(const std::string& working_directory,
                                const std::string& job,
                                WallTime now);

// Takes the run's secret away at its end, at whichever line that is.
class KeyRemoval {
 public:
  // Empty: nothing is removed.
  explicit KeyRemoval(std::string file) : file_(std::move(file)) {}

  KeyRemoval(const KeyRemoval&) = delete;
  KeyRemoval& operator=(const KeyRemoval&) = delete;

  ~KeyRemoval();

 private:
  std::string file_;
};

}  // namespace lockstep::control
