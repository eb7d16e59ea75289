#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/hashed_document.h"
#include "trainer-runtime/checkpoint/manifest.h"
#include "trainer-runtime/checkpoint/safetensors.h"
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
  KeyOrder key_order = KeyOrder::kAsWritten;  // of its documents
  // Whether a save makes the directory anew that somebody has removed. Where a program says no,
  // what should be mounted there may be missing.
  bool makes_anew = true;
  Logger* logger = nullptr;      // not owned
  const Clock* clock = nullptr;  // not owned
};

// A checkpoint that was found whole.
struct FoundCheckpoint {
  std::string folder;
  Manifest manifest;
  std::string tensors;  // the content of its tensors file
};

// Takes a checkpoint, or says what is wrong with it: kCorrupt is damage.
using CheckpointTaker = std::function<Status(FoundCheckpoint)>;

// Which checkpoint is wanted.
struct Wanted {
  std::optional<Step> below;  // one of an earlier step than this
  bool is_to_go_on = true;    // a job goes on from it: without it, it would begin at step 0
};

// The files of a checkpoint directory, written and read by the calling thread. CheckpointStore adds
// the background writer. Thread: each method from one thread; Claim, Publish and LoadNewest may
// overlap.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(CheckpointDirectoryOptions options);

  // Raises the fence to `writer` and removes what dead writers left half done. Where the disk has
  // no room for that (kResourceExhausted), each Publish tries it first. Errors: as
  // CheckpointStore::Claim.
  Status Claim(const WriterIdentity& writer);

  // Writes a checkpoint and makes it visible whole, then removes old ones. `manifest` says what it
  // is of; the writer, the file and the time are filled in. Precondition: CheckTensors. The fence
  // is checked under the directory's lock, right before the checkpoint appears. Result: bytes of
  // the tensors file. Errors: kStale (the fence is above the last Claim), kAlreadyExists (another
  // job has taken the directory over), kResourceExhausted (disk full), kTimeout (lock), kIo and its
  // kin; the directory is then as it was.
  Result<int64_t> Publish(const Manifest& manifest,
                          std::span<const TensorSlice> tensors,
                          const SafetensorsMetadata& metadata);

  // The same of the built-in trainer's state.
  Result<int64_t> Publish(const Snapshot& snapshot);

  // Whose the checkpoint of `step` is, where it is there and complete. Its tensors are not hashed.
  std::optional<WriterIdentity> WriterOf(Step step) const;

  // Whether that is `writer` or one that came after it.
  bool Holds(Step step, const WriterIdentity& writer) const;

  // Hands the newest checkpoint that verifies to `take`; false: there is none. Those that do not
  // are reported and skipped, as CheckpointStore::LoadNewest does. Errors: those of LoadNewest and
  // `take`; kUnavailable (all were removed each time while they were read).
  Result<bool> TakeNewest(const Wanted& wanted, const CheckpointTaker& take) const;

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
  struct Content;

  Result<int64_t> TryPublish(const Content& content);
  bool OwesFence() const;
  bool IsGone() const;
  bool HasHeldFence() const;
  void NoteFence(const WriterIdentity& writer);
  Status RemoveHalfDone() const;
  Result<int64_t> WriteFiles(const std::string& folder, const Content& content) const;
  Status MakeVisible(const std::string& folder, Step step) const;
  std::optional<Step> OldestOwn(const std::vector<Step>& steps) const;
  Result<bool> TryTakeNewest(const Wanted& wanted, const CheckpointTaker& take) const;
  Result<FoundCheckpoint> Read(Step step, std::optional<Step> oldest_own) const;
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
