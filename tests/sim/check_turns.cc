#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/sim/checks.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// Whose turn it is: who came later takes no room that an older one waits for.
namespace lockstep::control::sim {
namespace {

using std::chrono::seconds;

// Who has waited for so long is known to wait. Choice: twice what views lag.
constexpr seconds kIsKnownAfter = 2 * std::chrono::duration_cast<seconds>(kViewLag);

bool IsRolledBackAndPauses(const Json& job) {
  const auto status = job.find("status");
  return status != job.end() && status->contains("retryAt") &&
         status->value("rollbacks", int64_t{0}) > 0;
}

}  // namespace

// Notes when nodes and pods of others have changed last.
void Checks::NoteCluster() {
  std::string seen;
  for (const auto& [key, node] : server_->store().Of(kube::kNodes).objects) {
    seen += TextAt(*node, "metadata.resourceVersion") + " ";
    if (!IsNodeReady(*node)) {
      unready_at_[key.name] = context_->now;
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    if (JobUidOf(*pod).empty() && !HasPodEnded(*pod)) {
      seen += UidOf(*pod) + "@" + TextAt(*pod, "spec.nodeName") + " ";
    }
  }
  if (seen != cluster_seen_) {
    cluster_seen_ = seen;
    cluster_since_ = context_->now;
  }
  std::string own;
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    if (context_->has_autoscaler && !JobUidOf(*pod).empty() && !HasPodEnded(*pod)) {
      own += UidOf(*pod) + " ";
    }
  }
  if (own != pods_seen_) {
    pods_seen_ = own;
    pods_since_ = context_->now;
  }
  if (context_->has_fair_queues && IsAnyPodLeaving()) {
    pod_left_at_ = context_->now;
  }
}

// What nodes have that take pods, beside the pods of others.
AmountsByNode Checks::RoomForJobs() const {
  AmountsByNode room;
  for (const auto& [key, node] : server_->store().Of(kube::kNodes).objects) {
    const bool is_open = IsNodeReady(*node) && !node->at("spec").value("unschedulable", false) &&
                         !node->at("spec").contains("taints");
    if (is_open) {
      room[key.name] = AllocatableOf(*node);
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const auto node = room.find(NodeWantedBy(*pod));
    if (JobUidOf(*pod).empty() && !HasPodEnded(*pod) && node != room.end()) {
      for (const auto& [name, amount] : RequestsOfPod(*pod)) {
        node->second[name] -= amount;
      }
    }
  }
  return room;
}

// The nodes as they will be when everything older than the job has ended: pods of others and
// younger jobs stay.
AmountsByNode Checks::RoomBeside(const Json& older) const {
  AmountsByNode room = RoomForJobs();
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (UidOf(*job) != UidOf(older) && IsOlder(older, *job) &&
        TextAt(*job, "status.completionTime").empty()) {
      TakePlaces(*job, &room);
    }
  }
  return room;
}

// Whether the newly placed gang leaves the older one what it needs.
bool Checks::MayGoFirst(const Json& older, const Json& placed) const {
  const AmountsByNode beside = RoomBeside(older);  // with it: its status has been stored
  AmountsByNode before = beside;
  GiveBackPlaces(placed, &before);
  return !FitsGang(before, older) || FitsGang(beside, older);
}

// Whether the job, which wants places, stands in the queue: a gang that pauses before it restarts
// does, and one that waits for room, or for its turn, and is known to.
bool Checks::StandsInLine(const Json& job) const {
  if (!job.contains("status")) {
    return false;
  }
  const Json& status = job.at("status");
  const Json* const scheduled = WhyUnscheduled(job);
  const std::string reason = scheduled == nullptr ? "" : TextAt(*scheduled, "reason");
  if (IsPausing(job, context_->ServerTime() - kCalendarError)) {
    return status.value("rollbacks", int64_t{0}) == 0 &&
           status.value("quickRestarts", int64_t{0}) > 0 && reason != "PodStuck";
  }
  const bool is_current = status.value("observedGeneration", int64_t{0}) ==
                          job.at("metadata").value("generation", int64_t{0});
  const auto left = pause_left_at_.find(UidOf(job));
  if (left != pause_left_at_.end() && context_->now - left->second < kIsKnownAfter) {
    return false;  // it may have been placed a moment too late
  }
  const std::optional<WallTime> since =
      scheduled == nullptr ? std::nullopt : TimeAt(*scheduled, "lastTransitionTime");
  return is_current && (reason == "Unschedulable" || reason == "WaitsInQueue") &&
         since.has_value() && context_->ServerTime() - *since >= kIsKnownAfter;
}

// Whether a younger gang has left its places so short a time ago that it may have been reckoned
// with.
bool Checks::HasJustLeft(const Json& older) const {
  return std::any_of(departures_.begin(), departures_.end(), [&](const Departure& one) {
    return one.rest == nullptr && IsOlder(older, *one.job);
  });
}

// Also notes whose pause after a rollback is over: the condition does not tell, as it stays False.
void Checks::NoteDeparture(const ObjectPtr& before, const ObjectPtr& after) {
  if (IsRolledBackAndPauses(*before) && !IsRolledBackAndPauses(*after)) {
    pause_left_at_[UidOf(*after)] = context_->now;
  }
  std::erase_if(departures_,
                [this](const Departure& one) { return context_->now - one.at >= kViewLag; });
  const bool stays = HoldsPlaces(*after);
  if (HoldsPlaces(*before) && (!stays || CompletedCount(*after) > CompletedCount(*before))) {
    departures_.push_back({context_->now, before, stays ? after : nullptr});
  }
}

// Whether somebody waits who lets others pass just now: it has waited for ten minutes, and as long
// again has not passed yet; or for twice, four times as long, and so on. Reads generously by what
// statuses and rounds may lag.
bool Checks::MayAllPass() const {
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    const Json* const scheduled = WhyUnscheduled(*job);
    const auto since =
        scheduled == nullptr ? std::nullopt : TimeAt(*scheduled, "lastTransitionTime");
    if (!since.has_value()) {
      continue;
    }
    const auto waited = context_->ServerTime() - *since;
    auto begin = WallTime::duration(0);
    for (seconds window(600); begin <= waited; begin += 2 * window, window *= 2) {
      if (waited >= begin + window - kIsKnownAfter &&
          waited <= begin + 2 * window + kIsKnownAfter) {
        return true;
      }
    }
  }
  return false;
}

void Checks::CheckTurns(const ObjectPtr& before_object, const ObjectPtr& after_object) {
  NoteDeparture(before_object, after_object);
  NoteRun(*before_object, *after_object);
  const bool is_placed = !sim::HasPlaces(*before_object) && sim::HasPlaces(*after_object);
  if (!is_placed || !context_->HasOneLine() || context_->has_faults ||
      context_->now - cluster_since_ < kViewLag ||
      context_->now - context_->peace_since < 2 * kViewLag || server_->admission.raised_count > 0) {
    return;
  }
  for (const auto& [key, older] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (IsOlder(*older, *after_object) && WantsPlaces(*older) && StandsInLine(*older) &&
        !HasJustLeft(*older)) {
      Require(MayGoFirst(*older, *after_object) || MayPass(*older, after_object) || MayAllPass(),
              NameOf(jobs_.Of(after_object)) + " took the place of " + key.name +
                  ", which is older and waits");
    }
  }
}

// A gang asks for nodes where it has no room, by what is there, and what is held and promised.
void Checks::CheckAsksForRoom(const Json& asking) {
  NoteCluster();  // a node may have joined in this very tick
  if (!context_->HasOneLine() || context_->has_faults ||
      context_->now - cluster_since_ < kViewLag || context_->now - pods_since_ < kViewLag ||
      !departures_.empty() || context_->now - context_->peace_since < 2 * kViewLag ||
      server_->admission.raised_count > 0) {
    return;
  }
  AmountsByNode room = RoomForJobs();
  std::set<std::string> holding;  // uids of jobs
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (HoldsPlaces(*job)) {
      TakePlaces(*job, &room);
      holding.insert(UidOf(*job));
    }
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const auto node = room.find(NodeWantedBy(*pod));
    const bool is_counted = holding.contains(JobUidOf(*pod)) && !IsDeleting(*pod);
    if (node == room.end() || JobUidOf(*pod).empty() || HasPodEnded(*pod) || is_counted) {
      continue;
    }
    for (const auto& [name, amount] : RequestsOfPod(*pod)) {
      node->second[name] -= amount;
    }
  }
  context_->Count("a gang that asks for nodes when all is known");
  Require(!FitsGang(room, asking),
          TextAt(asking, "metadata.name") + ": asks for nodes, and there is room for it");
}

}  // namespace lockstep::control::sim
