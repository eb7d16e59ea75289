#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "common/base/strong_id.h"
#include "common/base/time.h"
#include "common/contract/status_document.h"

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

 private:
  mutable std::mutex mutex_;
  StatusDocument document_;  // guarded by mutex_
};

}  // namespace lockstep::runtime
