#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/checkpoint/snapshot.h"

namespace lockstep::runtime {

// What to do with a directory that another job (another uid) has written to.
enum class OtherJobPolicy {
  kRefuse,    // its checkpoints are not read, and Claim fails
  kTakeOver,  // its checkpoints are read, and Claim shuts the other job out for good
};

struct CheckpointDirectoryOptions {
  std::string directory;
  std::string job_uid;
  int keep_count = 3;
  OtherJobPolicy other_job = OtherJobPolicy::kRefuse;
  Logger* logger = nullptr;      // not owned
  const Clock* clock = nullptr;  // not owned
};

// The files of a checkpoint directory, written and read by the calling thread. CheckpointStore adds
// the background writer. Thread: each method from one thread; Claim, Publish and LoadNewest may
// overlap.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(CheckpointDirectoryOptions options);

  // Raises the fence to `writer` and removes what dead writers left half done. Where the disk has
  // no room for that, each Publish tries it first. Errors: as CheckpointStore::Claim.
  Status Claim(const WriterIdentity& writer);

  // Writes `snapshot` and makes it visible whole, then removes old checkpoints. The fence is
  // checked under the directory's lock, right before the checkpoint appears. Result: bytes of the
  // tensors file. Errors: kStale (the fence is above the last Claim), kAlreadyExists (another job
  // has taken the directory over), kResourceExhausted (disk full), kTimeout (lock), kIo and its
  // kin; the directory is then as it was.
  Result<int64_t> Publish(const Snapshot& snapshot);

  // Whether the checkpoint of `step` is there, complete, and of `writer` or one that came after it.
  // Its tensors are not hashed.
  bool Holds(Step step, const WriterIdentity& writer) const;

  // As CheckpointStore::LoadNewest.
  Result<std::optional<Snapshot>> LoadNewest() const;

  // "DIR/step-00000100".
  std::string PathOf(Step step) const;    // where it is written
  std::string FolderOf(Step step) const;  // where it lies: there, unless a crash left it aside

 private:
  // What a look at a checkpoint's manifest and sizes tells, without hashing its tensors.
  enum class Soundness {
    kFinite,      // complete
    kNotFinite,   // complete, but with values that nobody can train on
    kDamaged,     // parts are missing or cut
    kUnreadable,  // the disk or the server does not say
  };

  WriterIdentity ClaimedIdentity() const;
  Status RaiseFence();
  Result<int64_t> TryPublish(const Snapshot& snapshot);
  bool OwesFence() const;
  bool IsGone() const;
  bool HasHeldFence() const;
  void NoteFence(const WriterIdentity& writer);
  Status RemoveHalfDone() const;
  Result<int64_t> WriteFiles(const std::string& folder, const Snapshot& snapshot) const;
  Status MakeVisible(const std::string& folder, Step step) const;
  std::optional<Step> OldestOwn(const std::vector<Step>& steps) const;
  Result<Snapshot> Load(Step step, std::optional<Step> oldest_own) const;
  Soundness Look(Step step) const;
  void RemoveOld(Step newest) const;
  void RemoveFolder(const std::string& path) const;
  std::string TemporaryPath(const std::string& purpose) const;

  CheckpointDirectoryOptions options_;
  std::string token_;  // marks this process's temporary folders
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  WriterIdentity claimed_;
  bool owes_fence_ = false;      // claimed, while the disk had no room to say so
  bool has_held_fence_ = false;  // this process, at any time
};

}  // namespace lockstep::runtime
