#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/checkpoint/checkpoint_directory.h"
#include "trainer-runtime/checkpoint/snapshot.h"

namespace lockstep::runtime {

struct CheckpointStoreOptions {
  std::string directory;  // created when missing
  WriterIdentity writer;
  // Complete checkpoints left after each save; at least 1. The newest of finite values stays beyond
  // that count.
  int keep_count = 3;
  OtherJobPolicy other_job = OtherJobPolicy::kRefuse;
  Logger* logger = nullptr;      // not owned, outlives the store; required
  const Clock* clock = nullptr;  // not owned, outlives the store; required
};

// How one save ended.
struct SaveOutcome {
  Step step;
  // kStale: a newer writer of this job has taken over; kAlreadyExists: another job has;
  // kResourceExhausted: disk full.
  Status status;
  int64_t skipped = 0;  // snapshots since the outcome before that this one's writing replaced
  Duration duration{};  // from the start of writing
  int64_t bytes = 0;    // of the tensors file
};

// A directory of checkpoints with a background writer.
//
//   DIR/step-00000100/{tensors.safetensors, manifest.json}   a checkpoint
//   DIR/fence.json                                           the newest writer's identity
//   DIR/.tmp-*                                               being written or deleted; never read
//
// A checkpoint appears by the rename of a finished, flushed folder, so it is there whole or not at
// all; one that fails its checks is skipped with a warning, one that cannot be read is an error.
// There is no pointer to the newest: newest is the highest step that verifies. Thread: one calling
// thread; the writer is inside.
class CheckpointStore {
 public:
  // Every rank may open a store to read. Errors: kInvalidArgument (options), kIo and its kin.
  static Result<std::unique_ptr<CheckpointStore>> Open(CheckpointStoreOptions options);

  // Finishes the save that is being written, drops one that waits.
  ~CheckpointStore();

  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // Makes this process the writer for `epoch`: the chief calls it after each rendezvous, and
  // whoever saves in its name where it is lost, before the first SaveAsync. Removes what dead
  // writers left half done. On a full disk the claim is made by the first save that finds room, and
  // saves fail until then. Errors: kStale (a newer writer holds the fence), kAlreadyExists
  // (another job's directory, or one that another job has taken over from this one, for good),
  // kTimeout (the directory's lock is held by a stopped process), kIo
  // and its kin.
  Status Claim(Epoch epoch, Incarnation incarnation);

  // Whether `step` was saved, complete, by the writer that Claim with these would make this
  // process, or by one after it: by whoever saves in the same name.
  bool HasSaved(Step step, Epoch epoch, Incarnation incarnation) const;

  // Hands a snapshot to the writer and returns at once. One waits at most: a newer one replaces it
  // (counted), so training never waits for the disk. Precondition (checked): Claim succeeded.
  void SaveAsync(Snapshot snapshot);

  // The saves that ended since the last call, oldest first; the last 64 are kept.
  std::vector<SaveOutcome> TakeOutcomes();

  // Waits until all is written. Errors: kTimeout; else that of the newest save.
  Status Flush(Deadline deadline);

  // The newest checkpoint that verifies; empty when there is none. Once this job has written one,
  // another job's of a higher step does not count: it came later. Each one that does not is
  // reported with its reason. Errors: kIo and its kin when the directory or a checkpoint cannot be
  // read: it may be whole, and training would silently go on from an older one; kMismatch when a
  // later release wrote it.
  Result<std::optional<Snapshot>> LoadNewest();

  // Snapshots that were replaced by newer ones before being written.
  int64_t replaced_count() const;

 private:
  class Writer;

  explicit CheckpointStore(CheckpointStoreOptions options);

  CheckpointStoreOptions options_;
  CheckpointDirectory directory_;
  std::unique_ptr<Writer> writer_;  // null until Claim; uses directory_
};

}  // namespace lockstep::runtime
