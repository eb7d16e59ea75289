#pragma once

#include <cstdint>
#include <optional>

#include "common/base/time.h"
#include "operator/allocator/allocator.h"
#include "operator/api/job/job_id.h"
#include "operator/controller/queue/queue_line.h"
#include "operator/controller/write/publisher.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Who hears how long each round took.
struct RoundTiming {
  const Clock* clock = nullptr;  // null: nobody does
  Publisher* publisher = nullptr;
};

// Asks the allocator over the view, and passes on who is to have a turn because of its answers.
// Thread: one, the controller's.
class RoundKeeper {
 public:
  // `view` and what `timing` names outlive it.
  explicit RoundKeeper(ClusterView* view, RoundTiming timing = {})
      : view_(view), timing_(timing), line_(view) {}

  // It is the job's turn: from now on the allocator's answer is up to date for it. Others that have
  // another answer than before are added to `news`.
  void Ask(const JobId& key, WallTime now, News* news);

  // What that answer keeps for the job until others have gone, to be in its status before they
  // hear of it; null: nothing.
  std::optional<RoomClaim> ClaimFor(const JobId& key) const;

  // Which position the job has in its queue; null: it is not in line there.
  std::optional<int64_t> PositionOf(const JobId& key) const { return line_.PositionOf(key); }

  // A round if anything has changed, whoever it is that waits. Adds to `news` as Ask.
  void Plan(WallTime now, News* news);

  // Takes back what jobs have not taken that have had their turns. Adds to `news` whether others
  // may have it.
  void Settle(WallTime now, News* news);

  // Nothing of what was answered holds any more.
  void Reset(WallTime now);

  // When time alone may change an answer; null: never.
  std::optional<WallTime> look_again_at() const;

 private:
  Allocator& MakeRound(const JobId* job, WallTime now, News* news);

  ClusterView* view_;
  RoundTiming timing_;
  QueueLine line_;
};

}  // namespace lockstep::control
