#include "operator/view/pods/poll_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "operator/api/job/placement.h"
#include "operator/api/rules/recovery_rules.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/failure/device_check.h"
#include "operator/reconcile/gang/pod_labels.h"

namespace lockstep::control {
namespace {

// Choices: a loss is known an eighth of a second after its peers know it, seconds before a kubelet
// tells, at the price of eight small requests a second and job; devices, and the first word of a
// rank, soon, but not while the gang comes up, when everybody has more to do; an accused rank
// before its peers' patience ends. A pod more adds 2 ms, so that a gang of 500 costs no more than
// one of 100 does.
constexpr Duration kCalmInterval = std::chrono::milliseconds(250);
constexpr Duration kSurveyInterval = std::chrono::seconds(1);
constexpr Duration kAlarmInterval = std::chrono::milliseconds(200);
constexpr Duration kEachInterval = std::chrono::seconds(1);
constexpr Duration kEachIntervalMax = std::chrono::seconds(5);
constexpr Duration kIntervalPerPod = std::chrono::milliseconds(2);

// A meeting that waits so long for a peer is worth a look. Choice: images are often pulled by then,
// and no meeting has given up.
constexpr double kMissedSeconds = 5;

// Of a gang that may be relaunched each pod tells of its own programs, and ends where nobody asks
// any more; of one whose ranks train a model each, each pod tells of its own models, and no rank of
// another's loss. 10 ms more for each pod, so that a gang of 500 costs 100 requests a second.
bool SpeaksForItself(const TrainingJobSpec& spec) {
  const bool has_own_models = spec.training.has_value() && spec.strategy == Strategy::kIndependent;
  return has_own_models || MayRelaunch(spec);
}

Duration EachInterval(std::size_t pods) {
  return std::min(kEachInterval + 5 * static_cast<int64_t>(pods) * kIntervalPerPod,
                  kEachIntervalMax);
}

constexpr std::size_t kSpeakers = 2;  // the second goes on when the first is the one that is lost

struct Candidate {
  int rank = 0;
  const kube::Pod* pod = nullptr;
  bool is_surveyed = true;  // nobody asks for its devices any more
};

const PodPlacement* PlacementOf(const TrainingJobStatus& status, const PodIdentityLabels& pod) {
  const PodPlacement* const placement = FindPlacement(status, pod.task);
  const bool is_current = placement != nullptr && status.attempt == pod.number.attempt &&
                          placement->incarnation == pod.number.incarnation;
  return is_current ? placement : nullptr;
}

std::vector<Candidate> CandidatesOf(const TrainingJob& job,
                                    const std::vector<const kube::Pod*>& pods) {
  std::vector<Candidate> candidates;
  const bool records_devices = RecordsDevices(job.spec);
  for (const kube::Pod* pod : pods) {
    const auto identity = IdentityOf(*pod);
    if (!identity || !identity->rank || identity->job_uid != job.metadata.uid ||
        pod->status.phase != kube::PodPhase::kRunning || pod->status.pod_ip.empty()) {
      continue;
    }
    const PodPlacement* const placement = PlacementOf(job.status, *identity);
    const RoleSpec* const role = job.FindRole(identity->task.role);
    if (placement != nullptr && role != nullptr) {
      const bool is_surveyed = role->gpus == 0 || !placement->devices.empty() || !records_devices;
      candidates.push_back({*identity->rank, pod, is_surveyed});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.rank < b.rank;
  });
  return candidates;
}

// Whether the pod's runtime works, and so has told of its devices, be they none.
bool HasShown(const kube::Pod& pod, const PollKnowledge& known) {
  const auto document = known.documents.find(pod.name);
  return document != known.documents.end() && document->second->phase != Phase::kStarting;
}

}  // namespace

bool Accuses(const StatusDocument& document) {
  return std::any_of(document.peers.begin(), document.peers.end(), [](const PeerStatus& peer) {
    return peer.state == PeerState::kSilent || peer.state == PeerState::kLost ||
           (peer.state == PeerState::kMissing && peer.silent_seconds >= kMissedSeconds);
  });
}

std::vector<PollTarget> PollPlan(const TrainingJob& job,
                                 const std::vector<const kube::Pod*>& pods,
                                 const PollKnowledge& known) {
  std::vector<PollTarget> targets;
  if (HasEnded(job.status)) {
    return targets;
  }
  const std::vector<Candidate> candidates = CandidatesOf(job, pods);
  const bool is_alarmed =
      std::any_of(candidates.begin(),
                  candidates.end(),
                  [&](const Candidate& candidate) {
                    const std::string& name = candidate.pod->name;
                    const auto document = known.documents.find(name);
                    // One that never told anything has not begun to listen.
                    return document != known.documents.end() &&
                           (Accuses(*document->second) || document->second->held.has_value() ||
                            !document->second->hang_evidence.empty() ||
                            known.closed.count(name) > 0);
                  }) ||
      job.status.relaunch.since.has_value();
  const bool speaks_for_itself = SpeaksForItself(job.spec);
  const Duration load = static_cast<int64_t>(candidates.size()) * kIntervalPerPod;
  const bool is_complete = IsTrue(job.status, ConditionType::kRunning);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const kube::Pod& pod = *candidates[i].pod;
    if (is_alarmed) {
      targets.push_back({pod.name, pod.status.pod_ip, kAlarmInterval + load});
    } else if (i < kSpeakers) {
      const bool has_spoken = known.documents.count(pod.name) > 0;
      targets.push_back(
          {pod.name, pod.status.pod_ip, has_spoken ? kCalmInterval : kSurveyInterval});
    } else if (speaks_for_itself) {
      targets.push_back({pod.name, pod.status.pod_ip, EachInterval(candidates.size())});
    } else if (is_complete && !candidates[i].is_surveyed && !HasShown(pod, known)) {
      targets.push_back({pod.name, pod.status.pod_ip, kSurveyInterval + load});
    }
  }
  return targets;
}

}  // namespace lockstep::control
