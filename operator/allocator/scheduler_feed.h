#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/allocator/job_stand.h"
#include "operator/api/job_id.h"
#include "operator/scheduler/cluster_state.h"
#include "operator/scheduler/round.h"

namespace lockstep::control {

// The cluster as scheduling rounds know it, kept up to date job by job and node by node. What does
// not change anything is no event of the state.
//
// What a round has granted holds its room from then on, and so does what it keeps for a job until
// others have gone. It is taken when the job's status is about to say so; until then it can be
// given back, as if the round had not been. Only a claim that is stored makes others go.
// Thread: one.
class SchedulerFeed {
 public:
  explicit SchedulerFeed(ClusterState::Options options = {}) : state_(std::move(options)) {}

  // As of ClusterState.
  void SetRecorder(StateRecorder* recorder) { state_.SetRecorder(recorder); }

  // `node.used` and `node.pod_count` are what strangers hold.
  void SetNode(const SnapshotNode& node) { state_.SetNode(node); }

  void RemoveNode(const std::string& name) { state_.RemoveNode(name); }

  // As ClusterState::SetQueues, for queues that do not contradict each other.
  void SetQueues(const std::vector<QueueSpec>& queues, std::map<std::string, std::string> unserved);

  // As of ClusterState.
  void SetPastUse(const PastUseByQueue& past) { state_.SetPastUse(past); }

  void SetStrangers(const std::string& node, const NodeUsage& usage);
  void SetJob(const JobId& key, const JobStand& stand);

  // Does what a round of this state has decided.
  void Commit(const RoundResult& result, WallTime now);

  // What the job was granted and has not taken; null: nothing.
  const PlacedPods* GrantOf(const JobId& key) const;

  // What is kept for the job until others have gone; null: nothing. The uids and attempts of those
  // are known once its status names them.
  const RoomClaim* ClaimOf(const JobId& key) const;

  // What is kept of each node for jobs until others have gone, or until they have their turns.
  UsageByNode RoomKept() const;

  // Those of the claim that have not gone yet.
  std::vector<std::string> StillThere(const RoomClaim& claim) const;

  // For whom that gang of the job is to go now; null: it stays.
  const GangRecord* EvictorOf(const JobId& key, const std::string& uid, Attempt attempt) const;

  // Jobs that are to be set anew because of claims of others.
  std::set<JobId> TakeAffected() { return std::exchange(affected_, {}); }

  // The job decides on its grant or claim now.
  void NoteOffered(const JobId& key);

  // Whether some have, of whom it is not known yet whether they took it.
  bool has_offers() const { return !offered_.empty(); }

  // Grants are given back: those that were offered and not taken, whose jobs keep their place and
  // are not granted anything until something is new about them, or all.
  void TakeBackDeclined();
  void TakeBackAll();

  const ClusterState& state() const { return state_; }

  // For Round, which leaves it as it was.
  ClusterState* mutable_state() { return &state_; }

 private:
  // Room that is kept for a job.
  struct KeptRoom {
    RoomClaim claim;
    bool is_taken = false;   // its status names it, or is about to
    bool is_stored = false;  // it does already
  };

  // Where a gang stands in somebody's claim.
  struct GangInClaim {
    JobId claimant;
    std::size_t index = 0;
  };

  // Holds what a job's pods hold for which it has no place any more, or never had one: those that
  // stay, and those that go by themselves. No job has such a name.
  static std::string LeftPodsOf(const std::string& gang);
  static std::string GoingPodsOf(const std::string& gang);
  static PlacedPods PodsOf(const RoomClaim& claim);
  std::string QueueOfPodsWithoutPlaces(const JobStand& stand) const;
  UsageByNode HeldBy(const GangRecord& gang) const;
  bool HoldsJust(const UsageByNode& held, const GangRecord& gang) const;

  // A gang that holds room.
  struct Held {
    const UsageByNode& usage;
    const RunTerms& run;
    const std::string* goes_for = nullptr;  // null: it stays
  };

  void SetHolding(const GangRequest& request, const Held& held);
  void SetPodsWithoutPlaces(const JobStand& stand);
  void SetWaiting(const GangRequest& request);
  void Resubmit(const JobId& key, const GangRequest& request);
  void HeedClaim(const JobId& key, const JobStand& stand);
  void Keep(const JobId& key, KeptRoom kept);
  void DropClaim(const JobId& key);
  void Release(const JobId& key, const RoomClaim& claim);
  void NoteClaims(const RoundResult& result, WallTime now);
  std::string ClaimantOn(const JobStand& stand) const;

  ClusterState state_;
  std::map<JobId, PlacedPods> grants_;
  std::map<JobId, KeptRoom> claims_;
  std::map<std::string, GangInClaim> claimed_gangs_;  // of claims_
  std::map<JobId, RoomClaim> voided_;  // a round gave it up, and the status names it still
  std::set<JobId> affected_;
  std::set<JobId> offered_;  // of grants_ and of claims_ that are not taken
};

}  // namespace lockstep::control
