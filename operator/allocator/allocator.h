#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/allocator/job_stand.h"
#include "operator/api/job/job_id.h"
#include "operator/scheduler/round.h"
#include "operator/scheduler/state/cluster_state.h"

namespace lockstep::control {

// Knows who holds what of the cluster, and who is about to, and makes the rounds that give room
// out. Nodes, queues and jobs are told to it one at a time. A call that changes nothing causes no
// event of the state.
//
// A round is made only if something has changed that one could answer in another way. What a round
// has granted holds its room from then on, and so does what it keeps for a job until others have
// gone. A job hears its answer when it has its turn. It takes what it was granted when its status
// is about to say so; what it does not take is given back, as if the round had not been. Anything
// new makes the answers of those that have not heard theirs be decided again. Only a claim that is
// stored makes others go.
// Thread: one.
class Allocator {
 public:
  explicit Allocator(ClusterState::Options options = {}) : state_(std::move(options)) {}

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

  // Takes back what was offered and not taken. Then makes a round if anything has changed; null:
  // nothing has. `job` has its turn: its words are up to date then, and what it was granted or is
  // kept for it is offered to it. Null `job`: nobody's turn.
  std::optional<RoundResult> Ask(const JobId* job, WallTime now);

  // Takes back grants that were offered and not taken: their jobs keep their place and are not
  // granted anything until something is new about them.
  void TakeBackDeclined();

  // Nothing of what was answered holds any more.
  void Reset();

  // Who has another answer than before and has not been told: who was granted something, and who
  // waits for something else.
  std::set<JobId> TakeGranted() { return std::exchange(granted_, {}); }

  std::set<JobId> TakeRefused() { return std::exchange(refused_, {}); }

  // Jobs for which others could go, and of whose pods the API server is to be asked first; with who
  // would go. Each is named again while that is so, until SetJob has the answer.
  std::map<JobId, std::vector<JobId>> TakePermissionNeeds() {
    return std::exchange(permission_needs_, {});
  }

  // How things stand for the job as the newest round has it: a node for each of its pods, which is
  // to be in its status before anybody else asks, or what it waits for.
  PlanResult AnswerFor(const JobId& key) const;

  // What is kept for the job until others have gone; null: nothing. The uids and attempts of those
  // are known once its status names them.
  const RoomClaim* ClaimOf(const JobId& key) const;

  // What is kept of each node for jobs until others have gone, or until they have their turns.
  UsageByNode RoomKept() const;

  // For whom that gang of the job is to go now; null: it stays.
  const GangRecord* EvictorOf(const JobId& key, const std::string& uid, Attempt attempt) const;

  // Jobs that are to be set anew because of claims of others.
  std::set<JobId> TakeAffected() { return std::exchange(affected_, {}); }

  // Whether jobs were offered room of which it is not known yet whether they took it.
  bool has_offers() const { return !offered_.empty(); }

  // How many rounds there were.
  int64_t round_count() const { return round_count_; }

  // Refusals whose figures the newest round did not look at.
  std::size_t outdated_count() const { return outdated_count_; }

  // When time alone may change an answer; null: never.
  std::optional<WallTime> look_again_at() const { return look_again_at_; }

  const ClusterState& state() const { return state_; }

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
  std::vector<std::string> StillThere(const RoomClaim& claim) const;
  std::string WhatLeaves(const JobId& key) const;
  bool IsRoundDue(const JobId* job, WallTime now) const;
  RoundResult MakeRound(const JobId* asked, WallTime now);
  void NoteAnswers(const RoundResult& result);
  bool IsOffer(const JobId& key) const;
  void TakeBackAll();

  ClusterState state_;
  std::map<JobId, PlacedPods> grants_;
  std::map<JobId, KeptRoom> claims_;
  std::map<std::string, GangInClaim> claimed_gangs_;  // of claims_
  std::map<JobId, RoomClaim> voided_;  // a round gave it up, and the status names it still
  std::set<JobId> affected_;
  std::set<JobId> offered_;  // of grants_ and of claims_ that are not taken
  RoundMemory memory_;
  std::optional<uint64_t> decided_;  // the state's news when the newest round was done
  std::size_t outdated_count_ = 0;
  std::optional<WallTime> look_again_at_;
  int64_t round_count_ = 0;
  std::set<JobId> granted_;  // and have not been told
  std::set<JobId> refused_;  // in other words than before, and have not been told
  std::map<JobId, std::vector<JobId>> permission_needs_;  // of the newest rounds
};

}  // namespace lockstep::control
