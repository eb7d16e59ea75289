#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job_id.h"
#include "operator/controller/publisher.h"
#include "operator/controller/queue_line.h"
#include "operator/scheduler/round.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Who hears how long each round took.
struct RoundTiming {
  const Clock* clock = nullptr;  // null: nobody does
  Publisher* publisher = nullptr;
};

// Makes a scheduling round over all jobs whenever something has changed that one could answer in
// another way, and keeps what it has answered. A job hears its answer when it has its turn; what it
// was granted is its own until then, and given back where it does not take it. Anything new makes
// the answers of those that have not heard theirs be decided again.
// Thread: one, the controller's.
class RoundKeeper {
 public:
  // `view` and what `timing` names outlive it.
  explicit RoundKeeper(ClusterView* view, RoundTiming timing = {})
      : view_(view), timing_(timing), line_(view) {}

  // How things stand for the job at this moment: a node for each of its pods, which is to be in its
  // status before anybody else asks, or what it waits for. Others that have another answer than
  // before are added to `news`.
  PlanResult AnswerFor(const JobId& key, WallTime now, News* news);

  // What that answer keeps for the job until others have gone, to be in its status before they
  // hear of it; null: nothing.
  std::optional<RoomClaim> ClaimFor(const JobId& key, WallTime now);

  // Which position the job, which has its turn and its answer, has in its queue; null: it is not in
  // line there.
  std::optional<int64_t> PositionOf(const JobId& key, WallTime now) { return line_.Tell(key, now); }

  // A round if anything has changed, whoever it is that waits. Adds to `news` as AnswerFor.
  void Plan(WallTime now, News* news);

  // Takes back what jobs have not taken that have had their turns. Adds to `news` whether others
  // may have it.
  void Settle(WallTime now, News* news);

  // Jobs for which others could go, and of whose pods the API server is to be asked first; with who
  // would go. Each is named again while that is so, until the answer is in the view.
  std::map<JobId, std::vector<JobId>> TakePermissionNeeds() {
    return std::exchange(permission_needs_, {});
  }

  // Nothing of what was answered holds any more.
  void Reset(WallTime now);

  // How many rounds there were.
  int64_t round_count() const { return round_count_; }

  // When time alone may change an answer; null: never.
  std::optional<WallTime> look_again_at() const;

 private:
  void MakeRound(const JobId* asked, WallTime now);
  void TellOthers(News* news);

  bool IsLookDue(WallTime now) const { return look_again_at_ && *look_again_at_ <= now; }

  ClusterView* view_;
  RoundTiming timing_;
  RoundMemory memory_;
  std::optional<uint64_t> decided_;  // the state's news when the last round was done
  std::size_t outdated_count_ = 0;   // refusals whose figures that round did not look at
  std::optional<WallTime> look_again_at_;
  int64_t round_count_ = 0;
  QueueLine line_;
  std::set<JobId> granted_;                               // and have not been told
  std::map<JobId, std::vector<JobId>> permission_needs_;  // of the newest rounds
  std::set<JobId> refused_;  // in other words than before, and have not been told
};

}  // namespace lockstep::control
