#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/strong_id.h"
#include "common/contract/environment/topology.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "operator/reconcile/observed.h"

namespace lockstep::control {

// What has become of the pod that stands for one task.
enum class MemberState {
  kNotSeen,  // decided, but no pod of it was ever seen
  kPending,  // it exists, its process does not run yet
  kRunning,
  kLeaving,    // somebody asked it to end; its process may still run
  kHeld,       // its programs have failed, and the pod waits for their relaunch
  kSucceeded,  // its work is done, now or in an earlier turn
  kFailed,     // its process ended before its work was done, or could not start
  kVanished,   // it was seen and is gone, or its node is
};

// What older pods of a task still do.
enum class Predecessor {
  kGone,
  kLeaving,  // one has been asked to end and may still run, or has ended as far as others can tell
  kAlive,    // one runs on, or will
};

// One task of the current attempt, with the pod that stands for it.
struct Member {
  TaskId task;
  std::optional<int> rank;  // of the pod's first process
  PodNumber number;
  std::string pod_name;
  std::string node;  // where its pod belongs; empty while there is no room
  MemberState state = MemberState::kNotSeen;
  const kube::Pod* pod = nullptr;         // null when not there
  const RuntimeReport* report = nullptr;  // of this very pod; null when none
  Predecessor predecessor = Predecessor::kGone;
};

// A pod of the job, and who it is.
struct OwnPod {
  const kube::Pod* pod = nullptr;
  PodIdentityLabels identity;
};

// All that are the job's and no other's, by name. Points into `observed`.
std::vector<OwnPod> OwnPods(const Metadata& job, const Observed& observed);

// The job's pods against its ledger. Points into `Observed`.
struct GangView {
  std::vector<Member> members;          // one for each placement, in task order
  std::vector<const kube::Pod*> stale;  // ours, but of an older attempt or incarnation
};

// A report older than this proves nothing about now. Choice: several times the 100 to 250 ms at
// which pods are asked, and well below the two seconds in which a hang must be noticed.
inline constexpr Duration kReportFresh = std::chrono::milliseconds(1000);

// Whether the member's runtime answered a moment ago.
bool GivesFreshReport(const Member& member);

// Whether somebody heard the member's process a moment ago: we, or a peer that tells us.
bool IsHeard(const std::vector<Member>& members, const Member& member);

// Whether a rank has done its work. In a built-in training no other can be replaced from then on: a
// successor would wait for peers that never come.
bool HasFinishedRank(const GangView& view);

// How often the member's programs have been started anew within its pod, as far as it has told.
int64_t RelaunchesOf(const Member& member);

// No meeting has a higher number: whoever tells of one is not believed. Choice: what JSON carries
// exactly everywhere, and what no job comes near.
inline constexpr Epoch kEpochMax{int64_t{1} << 53};

// The newest meeting that the member's runtime tells of, if the gang may be in it; else `known`.
Epoch ReportedEpoch(const Member& member, Epoch known);

// "pod mnist-worker-1 (rank 1)".
std::string DescribeMember(const Member& member);

// The node of that name; null when there is none.
const kube::Node* FindNode(const Observed& observed, const std::string& name);

// Whether the node is there and its kubelet reports: somebody will carry out what is asked of its
// pods.
bool IsNodeReady(const Observed& observed, const std::string& name);

// Whether the pod's process has ended, or never began and never will.
bool HasEnded(const kube::Pod& pod);

// Whether the pod holds its resources and its address: it has not ended, and its node is there. A
// pod that was asked to end on a node that does not report is given up: nobody there will say when
// it has ended.
bool IsAlive(const kube::Pod& pod, const Observed& observed);

// What a placement remembers a seen pod by: its uid, or its name where the cluster gives no uids.
const std::string& SeenMark(const kube::Pod& pod);

// The placement that took over from `pod`, one incarnation later; null when none did.
const PodPlacement* SuccessorOf(const TrainingJobStatus& status, const kube::Pod& pod);

// Sorts the observed pods of the job against `status`, which names attempt and placement. Pods of
// other jobs, of an earlier job of the same name, and pods that are not ours are left out.
// Precondition: `topology` has every task of the placement.
//
// A node that is gone, or does not report, says nothing about the process there: a member that
// answers, or that a peer hears, lives on. One that nobody hears has vanished with a node that is
// gone; on a node that does not report it has vanished when somebody asks it to end.
GangView ViewGang(const Metadata& job,
                  const TrainingJobStatus& status,
                  const JobTopology& topology,
                  const Observed& observed);

}  // namespace lockstep::control
