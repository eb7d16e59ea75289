#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/api/job_id.h"
#include "operator/scheduler/cluster_state.h"
#include "operator/scheduler/round.h"
#include "operator/view/job_stand.h"

namespace lockstep::control {

// The cluster as scheduling rounds know it, kept up to date job by job and node by node. What does
// not change anything is no event of the state.
//
// What a round has granted holds its room from then on. It is taken when the job's status is about
// to say so; until then it can be given back, as if the round had not been.
// Thread: one.
class SchedulerFeed {
 public:
  explicit SchedulerFeed(ClusterState::Options options = {}) : state_(std::move(options)) {}

  // `node.used` and `node.pod_count` are what strangers hold.
  void SetNode(const SnapshotNode& node) { state_.SetNode(node); }

  void RemoveNode(const std::string& name) { state_.RemoveNode(name); }

  void SetQueues(const std::vector<QueueSpec>& queues);
  void SetStrangers(const std::string& node, const NodeUsage& usage);
  void SetJob(const JobId& key, const JobStand& stand);

  // Does what a round of this state has decided.
  void Commit(const RoundResult& result, WallTime now);

  // What the job was granted and has not taken; null: nothing.
  const PlacedPods* GrantOf(const JobId& key) const;

  // The job decides on its grant now.
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
  void SetHolding(const GangRequest& request, const UsageByNode& held);
  void SetWaiting(const GangRequest& request);

  ClusterState state_;
  std::map<JobId, PlacedPods> grants_;
  std::set<JobId> offered_;  // of grants_
};

}  // namespace lockstep::control
