#include "operator/reconcile/gang/gang_view.h"

#include <algorithm>
#include <map>

#include "operator/api/job/placement.h"
#include "operator/reconcile/gang/departure.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// An end that the newest relaunch does not answer yet. One of before is over with it, an echo of
// what that was for.
bool IsHeld(const Member& member, const Relaunch& relaunch) {
  if (member.report == nullptr || !member.report->document.held.has_value()) {
    return false;
  }
  const StatusDocument& document = member.report->document;
  return document.held->exit_code != 0 && document.relaunches.value_or(0) >= relaunch.count;
}

MemberState MemberStateOf(const Member& member,
                          const PodPlacement& placement,
                          const std::vector<Member>& members,
                          const TrainingJobStatus& status,
                          const Observed& observed) {
  const kube::Pod* const pod = member.pod;
  if (placement.is_completed) {
    return MemberState::kSucceeded;
  }
  if (pod == nullptr) {
    return placement.pod_uid.empty() ? MemberState::kNotSeen : MemberState::kVanished;
  }
  if (!placement.pod_uid.empty() && placement.pod_uid != SeenMark(*pod)) {
    return MemberState::kVanished;  // another pod under the same name
  }
  switch (pod->status.phase) {
    case kube::PodPhase::kSucceeded:
      return HasDoneItsWork(*pod) ? MemberState::kSucceeded : MemberState::kFailed;
    case kube::PodPhase::kFailed:
      return MemberState::kFailed;
    default:
      break;
  }
  if (!IsAlive(*pod, observed) && !IsHeard(members, member)) {
    return MemberState::kVanished;
  }
  if (pod->is_deleting) {
    return MemberState::kLeaving;
  }
  if (pod->status.phase != kube::PodPhase::kRunning) {
    return MemberState::kPending;
  }
  return IsHeld(member, status.relaunch) ? MemberState::kHeld : MemberState::kRunning;
}

// The pod's own report: a report of an older pod under the same address says nothing about it.
const RuntimeReport* ReportOf(const Observed& observed, const Member& member) {
  const auto found = observed.reports.find(member.pod_name);
  if (found == observed.reports.end()) {
    return nullptr;
  }
  const StatusDocument& document = found->second.document;
  const bool is_own = document.attempt == member.number.attempt &&
                      document.incarnation == member.number.incarnation;
  return is_own ? &found->second : nullptr;
}

// Nobody binds a pod that is to go, whatever holds its object back.
bool NeverBegins(const kube::Pod& pod) {
  return pod.is_deleting && pod.status.is_unbound;
}

}  // namespace

std::vector<OwnPod> OwnPods(const Metadata& job, const Observed& observed) {
  std::vector<OwnPod> pods;
  for (const kube::Pod& pod : observed.pods) {
    const auto identity = IdentityOf(pod);
    if (identity.has_value() && identity->job == job.name && identity->job_uid == job.uid &&
        pod.namespace_name == job.namespace_name) {
      pods.push_back({&pod, *identity});
    }
  }
  std::sort(pods.begin(), pods.end(), [](const OwnPod& a, const OwnPod& b) {
    return a.pod->name < b.pod->name;
  });
  return pods;
}

bool HasEnded(const kube::Pod& pod) {
  return NeverBegins(pod) || pod.status.phase == kube::PodPhase::kSucceeded ||
         pod.status.phase == kube::PodPhase::kFailed;
}

bool GivesFreshReport(const Member& member) {
  return member.report != nullptr && member.report->age <= kReportFresh;
}

bool IsHeard(const std::vector<Member>& members, const Member& member) {
  if (GivesFreshReport(member)) {
    return true;
  }
  return std::any_of(members.begin(), members.end(), [&](const Member& peer) {
    if (!GivesFreshReport(peer) || !member.rank.has_value()) {
      return false;
    }
    const auto& entries = peer.report->document.peers;
    return std::any_of(entries.begin(), entries.end(), [&](const PeerStatus& entry) {
      return entry.rank == *member.rank && entry.incarnation == member.number.incarnation &&
             entry.state == PeerState::kConnected &&
             entry.silent_seconds <= ToSeconds(kReportFresh);
    });
  });
}

bool HasFinishedRank(const GangView& view) {
  return std::any_of(view.members.begin(), view.members.end(), [](const Member& member) {
    return member.rank.has_value() && member.state == MemberState::kSucceeded;
  });
}

int64_t RelaunchesOf(const Member& member) {
  return member.report == nullptr ? 0 : member.report->document.relaunches.value_or(0);
}

Epoch ReportedEpoch(const Member& member, Epoch known) {
  if (member.report == nullptr || member.report->document.epoch > kEpochMax) {
    return known;
  }
  return std::max(known, member.report->document.epoch);
}

std::string DescribeMember(const Member& member) {
  std::string name = "pod " + member.pod_name;
  if (member.rank.has_value()) {
    name += " (rank " + std::to_string(*member.rank) + ")";
  }
  return name;
}

const kube::Node* FindNode(const Observed& observed, const std::string& name) {
  const auto found = std::find_if(observed.nodes->begin(),
                                  observed.nodes->end(),
                                  [&](const kube::Node& node) { return node.name == name; });
  return found == observed.nodes->end() ? nullptr : &*found;
}

bool IsNodeReady(const Observed& observed, const std::string& name) {
  const kube::Node* const node = FindNode(observed, name);
  return node != nullptr && node->is_ready;
}

bool IsAlive(const kube::Pod& pod, const Observed& observed) {
  if (HasEnded(pod)) {
    return false;
  }
  const std::string& node = pod.spec.node_name;
  if (node.empty() || pod.status.is_unbound) {
    return !pod.is_deleting;
  }
  return pod.is_deleting ? IsNodeReady(observed, node) : FindNode(observed, node) != nullptr;
}

const std::string& SeenMark(const kube::Pod& pod) {
  return pod.uid.empty() ? pod.name : pod.uid;
}

const PodPlacement* SuccessorOf(const TrainingJobStatus& status, const kube::Pod& pod) {
  const auto identity = IdentityOf(pod);
  if (!identity.has_value() || identity->number.attempt != status.attempt) {
    return nullptr;
  }
  const PodPlacement* const placement = FindPlacement(status, identity->task);
  const bool is_successors =
      placement != nullptr && placement->incarnation == identity->number.incarnation.Next();
  return is_successors ? placement : nullptr;
}

GangView ViewGang(const Metadata& job,
                  const TrainingJobStatus& status,
                  const JobTopology& topology,
                  const Observed& observed) {
  GangView view;
  std::map<TaskId, Member> members;
  std::map<TaskId, const PodPlacement*> placements;
  for (const PodPlacement& placement : status.placement) {
    Member member;
    member.task = TaskOf(placement);
    member.rank = FirstRankOf(topology, member.task);
    member.number = {status.attempt, placement.incarnation};
    member.pod_name = PodName(job.name, member.task, member.number);
    member.node = placement.node;
    placements[member.task] = &placement;
    members[member.task] = member;
  }
  for (const OwnPod& own : OwnPods(job, observed)) {
    const auto found = members.find(own.identity.task);
    if (found != members.end() && own.pod->name == found->second.pod_name &&
        own.identity.number == found->second.number) {
      found->second.pod = own.pod;
      continue;
    }
    view.stale.push_back(own.pod);
    if (found != members.end() && IsAlive(*own.pod, observed)) {
      const PodPlacement* const successor = SuccessorOf(status, *own.pod);
      const bool has_ended_untold = successor != nullptr && successor->awaits_verdict;
      Predecessor& predecessor = found->second.predecessor;
      predecessor = std::max(
          predecessor,
          own.pod->is_deleting || has_ended_untold ? Predecessor::kLeaving : Predecessor::kAlive);
    }
  }
  for (auto& [task, member] : members) {
    member.report = ReportOf(observed, member);
    view.members.push_back(member);
  }
  for (Member& member : view.members) {
    member.state = MemberStateOf(member, *placements[member.task], view.members, status, observed);
  }
  return view;
}

}  // namespace lockstep::control
