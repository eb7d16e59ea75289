#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/status/status_document.h"

namespace lockstep::runtime {

// Holds the process's status document: the training thread writes, the server's thread reads.
// Thread: any. Nobody waits longer than it takes to copy the document.
class StatusBoard {
 public:
  // `initial` carries what never changes: job, pod, role, rank, pid.
  explicit StatusBoard(StatusDocument initial);

  // Changes the document under the lock; `change` must return at once and not call the board.
  void Update(const std::function<void(StatusDocument&)>& change);

  void SetPhase(Phase phase);

  // Appends to the timeline, which keeps the newest kStatusTimelineMax events. Epoch and step are
  // the document's own; `rank` is the peer an event is about.
  void Record(TimelineEventKind event, TimePoint now, std::optional<int> rank = std::nullopt);

  // A copy as of now.
  StatusDocument Snapshot() const;

  // The same for whoever asks from outside, who is told of the data epochs in it, and how long ago
  // programs ended that are held.
  StatusDocument Tell();

  // When somebody asked last; null: nobody has.
  std::optional<TimePoint> told_at() const;

  // Waits, where somebody has asked before, until at most `untold_max` data epochs have not been
  // told, or until the deadline. Returns whether that is so.
  bool WaitUntilTold(std::size_t untold_max, Deadline deadline);

 private:
  mutable std::mutex mutex_;
  std::condition_variable was_told_;
  StatusDocument document_;            // guarded by mutex_
  std::optional<int64_t> told_up_to_;  // newest data epoch that was told, -1: none; null: nobody
  std::optional<TimePoint> told_at_;
};

}  // namespace lockstep::runtime
