#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "operator/api/job/placement.h"
#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/pod_labels.h"
#include "tests/sim/checks.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/pod_reader.h"
#include "tests/sim/selector.h"

// What others were promised, whatever a user writes: a queue's quota, an end in time, a turn, and
// a word about what one waits for.
namespace lockstep::control::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kGpu = "nvidia.com/gpu";

// A yes of the server holds for a minute; the claim that it serves is written soon, and by a view
// that lags. Choice.
constexpr seconds kPermissionOld{90};

// In peace. Choices: several turns of a job, with a new leader in between.
constexpr seconds kEndedSoon{45};
constexpr seconds kGivesWaySoon{45};
constexpr seconds kToldSoon{30};
constexpr minutes kStartsSoon{15};

// From a round to the places that it gave, as the server has them. Choice.
constexpr seconds kWrittenSoon{3};

bool IsNewlyPlaced(const TrainingJob& before, const Json& after) {
  return before.status.placement.empty() && sim::HasPlaces(after);
}

const Json* ConditionOf(const Json& job, const std::string& type) {
  const auto status = job.find("status");
  if (status == job.end() || !status->contains("conditions")) {
    return nullptr;
  }
  for (const Json& condition : status->at("conditions")) {
    if (TextAt(condition, "type") == type && TextAt(condition, "status") == "True") {
      return &condition;
    }
  }
  return nullptr;
}

Amounts AmountsOfPods(const Json& job, int64_t count) {
  Amounts all;
  for (int64_t i = 0; i < count; ++i) {
    AddTo(&all, RequestsOfRole(job, Role::kWorker));
  }
  return all;
}

Amounts GangOf(const Json& job) {
  return AmountsOfPods(job, job.at("spec").at("roles").at(0).at("replicas").get<int64_t>());
}

// Without the workers that are done.
Amounts StillHeldBy(const Json& job) {
  const auto places = static_cast<int64_t>(job.at("status").at("placement").size());
  return AmountsOfPods(job, places - CompletedCount(job));
}

std::string QueueNamedBy(const Json& job) {
  const std::string origin = sim::HasPlaces(job) ? TextAt(job, "status.origin.queue") : "";
  return origin.empty() ? TextAt(job, "spec.scheduling.queue") : origin;
}

bool WaitsForNode(const Json& job) {
  return sim::HasPlaces(job) &&
         std::ranges::any_of(job.at("status").at("placement"), [](const Json& one) {
           return TextAt(one, "node").empty() && !one.value("completed", false);
         });
}

// Whether somewhere more is taken than there is.
bool IsOverdrawn(const AmountsByNode& free) {
  return std::ranges::any_of(free, [](const auto& node) {
    return std::ranges::any_of(node.second, [](const auto& one) { return one.second < 0; });
  });
}

}  // namespace

// For how long it has been so, as far as somebody has looked.
Duration Checks::Lasts(const std::string& what, bool is_so) {
  if (!is_so) {
    lasts_since_.erase(what);
    return Duration{};
  }
  return context_->now - lasts_since_.try_emplace(what, context_->now).first->second;
}

// Nobody gets places in a queue that another release serves.
void Checks::CheckServedQueue(const TrainingJob& before, const ObjectPtr& after_object) {
  const std::string own = QueueNamedBy(*after_object);
  const bool is_served_elsewhere =
      context_->older_release.has_value() && (own == "owner" || own == "guest");
  Require(!is_served_elsewhere || !IsNewlyPlaced(before, *after_object),
          TextAt(*after_object, "metadata.name") + ": has its places in queue " + own +
              ", which another release serves");
}

// Gangs of the two queues hold no more than both have, unreadable ones too, but for those that are
// about to be told to go.
void Checks::CheckQuotas() {
  if (!context_->has_shares) {
    return;
  }
  int64_t held = 0;
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    const std::string queue = QueueNamedBy(*job);
    if (HoldsPlaces(*job) && (queue == "owner" || queue == "guest")) {
      const std::vector<PodPlacement>& all = jobs_.Of(job).status.placement;
      const auto places = std::count_if(all.begin(), all.end(), [&](const PodPlacement& one) {
        return !one.is_completed && MayRun(job, one);
      });
      held += places * AmountOf(RequestsOfRole(*job, Role::kWorker), kGpu) / 1000;
    }
  }
  int64_t nominal = 0;
  for (const char* const queue : {"owner", "guest"}) {
    const ObjectPtr object = server_->store().Get(kube::kTrainingQueues, {"", queue});
    nominal += object->at("spec").at("nominal").at(kGpu).get<int64_t>();
  }
  Require(Lasts("quota", held > nominal && !context_->has_faults) <= kToldSoon,
          "queues owner and guest have " + std::to_string(nominal) + " GPUs, and " +
              std::to_string(held) + " are held");
}

// Nobody goes for a gang whose pods the server would refuse, whoever else went.
void Checks::CheckServer(const TrainingJob& before, const ObjectPtr& after_object) {
  const TrainingJob& after = jobs_.Of(after_object);
  const auto& claim = after.status.claim;
  const auto quota = server_->quotas.find(kNamespace);
  if (!claim.has_value() || claim->gangs.empty() || quota == server_->quotas.end() ||
      (before.status.claim.has_value() && before.status.claim->since == claim->since) ||
      context_->has_faults || context_->now - context_->quota_since < kPermissionOld) {
    return;
  }
  const int64_t pods = after.spec.roles[0].replicas;
  Require(pods <= quota->second.pods_max && pods <= quota->second.objects_max.value_or(pods),
          NameOf(after) + ": others go for its " + std::to_string(pods) +
              " pods, and a ResourceQuota allows " + std::to_string(quota->second.pods_max));
}

// Asked to go, or of a job without places, which asks it to go soon, if it has not yet.
bool Checks::IsAnyPodLeaving() const {
  std::set<std::string> holding;  // uids of jobs
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (HoldsPlaces(*job)) {
      holding.insert(UidOf(*job));
    }
  }
  return std::ranges::any_of(server_->store().Of(kube::kPods).objects, [&](const auto& one) {
    const Json& pod = *one.second;
    const bool is_ours = !JobUidOf(pod).empty() && !HasPodEnded(pod);
    return is_ours && (IsDeleting(pod) || !holding.contains(JobUidOf(pod)));
  });
}

// Of two queues that share evenly, the one that would have less comes first: with the first of its
// jobs that could start, whatever stands before that. A round knows of a gang that has just left
// where the placed one could not stand otherwise; of others it may, or may not, as of a worker that
// is done. Queues have nominal amounts of GPUs alone, which decide.
void Checks::CheckFairTurn(const TrainingJob& before, const ObjectPtr& after_object) {
  if (!context_->has_fair_queues || !IsNewlyPlaced(before, *after_object) || context_->has_faults ||
      context_->now - cluster_since_ < kViewLag ||
      context_->now - context_->peace_since < 2 * kViewLag || IsAnyPodLeaving() ||
      context_->now - pod_left_at_ < kWrittenSoon || server_->admission.raised_count > 0) {
    return;
  }
  const std::string own = QueueNamedBy(*after_object);
  const AmountsByNode all = RoomForJobs();
  AmountsByNode room = all;
  Amounts mine;
  Amounts theirs;
  ObjectPtr first;
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    const bool is_mine = QueueNamedBy(*job) == own;
    if (HoldsPlaces(*job)) {
      TakePlaces(*job, &room);
      AddTo(is_mine ? &mine : &theirs, is_mine ? StillHeldBy(*job) : GangOf(*job));
    } else if (!is_mine && WantsPlaces(*job) && FitsGang(all, *job) &&
               (first == nullptr || IsOlder(*job, *first))) {
      first = job;
    }
  }
  if (first == nullptr || !StandsInLine(*first) ||
      IsPausing(*first, context_->ServerTime() - kCalendarError)) {
    return;
  }
  AddTo(&theirs, GangOf(*first));
  AmountsByNode beside = room;
  GiveBackPlaces(*after_object, &beside);
  const auto take_again = [](const Departure& one, AmountsByNode* free) {
    TakePlaces(*one.job, free);
    if (one.rest != nullptr) {
      GiveBackPlaces(*one.rest, free);
    }
  };
  for (const Departure& one : departures_) {
    AmountsByNode without = room;
    take_again(one, &without);
    if (!IsOverdrawn(without)) {
      take_again(one, &beside);
      if (one.rest == nullptr && QueueNamedBy(*one.job) != own) {
        AddTo(&theirs, GangOf(*one.job));
      }
    }
  }
  context_->Count("a turn between two queues that share evenly");
  Require(AmountOf(theirs, kGpu) >= AmountOf(mine, kGpu) || !FitsGang(beside, *first) ||
              FitsGang(room, *first),
          TextAt(*after_object, "metadata.name") + ": starts before " +
              TextAt(*first, "metadata.name") + ", whose queue would hold less");
}

// A limit of time ends pods, whatever is said of them after an end.
void Checks::CheckLimitEndsPods(const Json& job) {
  const Json* const failed = ConditionOf(job, "Failed");
  if (failed == nullptr || TextAt(*failed, "reason") != "DeadlineExceeded") {
    return;
  }
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    if (JobUidOf(*pod) == UidOf(job)) {
      const bool goes_on = !context_->has_faults && !HasPodEnded(*pod) && !IsDeleting(*pod);
      Require(Lasts("limit " + UidOf(*pod), goes_on) <= kEndedSoon,
              key.name + " goes on after its job's time was over");
    }
  }
}

// A pod that has ended is in nobody's way: where a quota counts it, it goes before its successor.
void Checks::CheckDeadGiveWay(const ObjectPtr& object) {
  const auto quota = server_->quotas.find(kNamespace);
  const bool is_asked = !context_->has_faults && quota != server_->quotas.end() &&
                        quota->second.objects_max.has_value() && !IsUnreadable(*object);
  if (!is_asked) {
    return;
  }
  const TrainingJob& job = jobs_.Of(object);
  for (const auto& [key, pod] : server_->store().Of(kube::kPods).objects) {
    const auto identity = ParsePodLabels(LabelsOf(*pod));
    if (!identity.has_value() || JobUidOf(*pod) != job.metadata.uid ||
        identity->number.attempt != job.status.attempt) {
      continue;
    }
    const PodPlacement* const placement = FindPlacement(job.status, identity->task);
    const bool is_in_the_way = HasPodEnded(*pod) && !IsDeleting(*pod) && placement != nullptr &&
                               identity->number.incarnation < placement->incarnation &&
                               !placement->node.empty() && !HasEnded(job.status) &&
                               PodAt(job, *placement) == nullptr;
    Require(Lasts("dead " + UidOf(*pod), is_in_the_way) <= kGivesWaySoon,
            key.name + " has ended, and is in the way of its successor");
  }
}

// A successor does not wait for a place that its rack has, whatever label a node has lost. Where a
// LimitRange raises what pods ask for, the operator knows of more than templates say.
void Checks::CheckRackHasNoRoom(const Json& job) {
  const bool waits = context_->has_racks && !context_->has_faults && WaitsForNode(job) &&
                     HoldsPlaces(job) && !IsUnreadable(job) && server_->admission.raised_count == 0;
  if (!waits) {
    Lasts("rack " + UidOf(job), false);
    return;
  }
  AmountsByNode room = RoomForJobs();
  std::erase_if(room, [&](const auto& node) {
    const ObjectPtr object = server_->store().Get(kube::kNodes, {"", node.first});
    return !LabelsOf(*object).contains(kRackLabel);
  });
  for (const auto& [key, other] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (HoldsPlaces(*other)) {
      TakePlaces(*other, &room);
    }
  }
  Json one = job;
  one["spec"]["roles"][0]["replicas"] = 1;
  Require(Lasts("rack " + UidOf(job), FitsGang(room, one)) <= kToldSoon,
          TextAt(job, "metadata.name") + ": a replacement waits, and its rack has room");
}

// Whoever goes on for ever says why, or runs; and a replacement that waits is told of.
void Checks::CheckReasons(const Json& job) {
  const bool is_open = !context_->has_faults && TextAt(job, "status.completionTime").empty();
  const Json* const running = ConditionOf(job, "Running");
  const Json* const restarting = ConditionOf(job, "Restarting");
  const auto says = [](const Json* condition) {
    return condition != nullptr && TextAt(*condition, "reason") == "ReplacementWaits";
  };
  const bool is_told = WhyUnscheduled(job) != nullptr || running != nullptr ||
                       restarting != nullptr || ConditionOf(job, "Suspended") != nullptr ||
                       ConditionOf(job, "Stalled") != nullptr;
  const std::string name = TextAt(job, "metadata.name");
  Require(Lasts("untold " + UidOf(job), is_open && !is_told) <= kStartsSoon,
          name + ": neither runs nor says what it waits for");
  const bool is_silent = WaitsForNode(job) && !says(running) && !says(restarting) &&
                         WhyUnscheduled(job) == nullptr && !IsUnreadable(job);
  Require(Lasts("place " + UidOf(job), is_open && is_silent) <= kToldSoon,
          name + ": a replacement waits for a place, and nobody says so");
}

}  // namespace lockstep::control::sim
