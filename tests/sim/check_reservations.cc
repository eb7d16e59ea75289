#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/checks.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/selector.h"

// Who may pass an older one that waits, as it is stopped in time; and that whoever is the first of
// the queue starts when everything has been stopped that ran when it came to be. Where queues share
// the cluster, it is not asked.
namespace lockstep::control::sim {
namespace {

using std::chrono::seconds;

constexpr const char* kDefaultQueueName = "default";

// Of pods. Source: as the API server fills it in.
constexpr seconds kGrace{30};

// A round that grants is so much older than the status that says so; and calendars differ.
constexpr seconds kGrantError =
    std::chrono::duration_cast<seconds>(kViewLag) + seconds(kCalendarError);

// Whoever may start does so by then. Choice: pods that end, a leader that goes, and rounds between
// them take less than half of it.
constexpr seconds kStartsWithin{180};

// Nothing is told of one run alone.
constexpr std::size_t kRunsToTell = 2;

bool IsAfterLearning(const std::string& message) {
  return message.find("runs of similar jobs took") != std::string::npos;
}

std::string GangIdOf(const Json& job) {
  const Json status = job.value("status", Json::object());
  return UidOf(job) + "/" + std::to_string(status.value("attempt", int64_t{0}));
}

}  // namespace

// When the gang is stopped, its pods' grace aside, by its own limit or the queue's; null: never.
std::optional<WallTime> Checks::StopOf(const Json& job) const {
  const std::optional<WallTime> start = TimeAt(job, "status.startTime");
  std::optional<int64_t> limit;
  const Json policy = job.at("spec").value("runPolicy", Json::object());
  if (policy.contains("activeDeadlineSeconds")) {
    limit = policy.at("activeDeadlineSeconds").get<int64_t>();
  }
  const ObjectPtr queue = server_->store().Get(kube::kTrainingQueues, {"", kDefaultQueueName});
  if (queue != nullptr && queue->at("spec").contains("maxRuntimeSeconds")) {
    const int64_t ran_before = job.at("status").value("ranBeforeSeconds", int64_t{0});
    const int64_t left =
        std::max<int64_t>(0, queue->at("spec").at("maxRuntimeSeconds").get<int64_t>() - ran_before);
    limit = std::min(limit.value_or(left), left);
  }
  return start.has_value() && limit.has_value() ? std::optional(*start + seconds(*limit))
                                                : std::nullopt;
}

// Runs that ended well, by the label that says what is run again and again.
void Checks::NoteRun(const Json& before, const Json& after) {
  const std::string recipe = LabelOf(after, kRecipeLabel);
  const bool is_placed = !sim::HasPlaces(before) && sim::HasPlaces(after);
  if (is_placed) {
    placed_at_[UidOf(after)] = context_->ServerTime();
  }
  if (is_placed && runs_[recipe].size() >= kRunsToTell && !recipe.empty()) {
    context_->Count("a job of a kind that is known");
  }
  if (const Json* const why = WhyUnscheduled(after);
      why != nullptr && IsAfterLearning(TextAt(*why, "message"))) {
    Require(context_->learns_run_times,
            TextAt(after, "metadata.name") + ": is told what nobody learns");
    context_->Count("a start that earlier runs tell");
  }
  const auto start = TimeAt(after, "status.startTime");
  const auto end = TimeAt(after, "status.completionTime");
  const bool has_ended = TextAt(before, "status.completionTime").empty() && end.has_value();
  if (has_ended && start.has_value() && !recipe.empty()) {
    runs_[recipe].push_back(*end - *start);  // longer than what is learnt, if anything
  }
}

// When the running gang is thought to have ended at the latest, whoever has learnt what; null:
// nobody can know, or it has run for longer.
std::optional<WallTime> Checks::LearntEndOf(const Json& job) const {
  const auto runs = runs_.find(LabelOf(job, kRecipeLabel));
  const auto since = placed_at_.find(UidOf(job));
  if (!context_->learns_run_times || runs == runs_.end() || runs->second.size() < kRunsToTell ||
      since == placed_at_.end()) {
    return std::nullopt;
  }
  const auto longest = *std::max_element(runs->second.begin(), runs->second.end());
  const WallTime end = since->second + longest + kGrantError;
  return end < context_->ServerTime() - kGrantError ? std::nullopt : std::optional(end);
}

// When the older one fits at the latest, by limits alone, if those that hold something are stopped
// no sooner than they may run; null: it does not.
std::optional<WallTime> Checks::LatestStart(const Json& older,
                                            const std::vector<ObjectPtr>& holders) const {
  AmountsByNode room = RoomForJobs();
  std::vector<std::pair<WallTime, ObjectPtr>> ends;
  for (const ObjectPtr& holder : holders) {
    TakePlaces(*holder, &room);
    if (const auto stop = StopOf(*holder)) {
      ends.emplace_back(*stop + kGrace, holder);
    }
  }
  std::sort(
      ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  WallTime now = context_->ServerTime();
  for (const auto& [end, holder] : ends) {
    if (FitsGang(room, older)) {
      return now;
    }
    GiveBackPlaces(*holder, &room);
    now = std::max(now, end);
  }
  return FitsGang(room, older) ? std::optional(now) : std::nullopt;
}

// Where limits alone do not tell: the last moment that anybody may expect, by what is known of
// those that have no limit; null: there is none. `stays` keeps its places; null: nobody.
std::optional<WallTime> Checks::LastExpected(const Json& older,
                                             const std::vector<ObjectPtr>& holders,
                                             const Json* stays) const {
  AmountsByNode room = RoomForJobs();
  if (stays != nullptr) {
    TakePlaces(*stays, &room);
  }
  WallTime last{};
  for (const ObjectPtr& holder : holders) {
    const auto stop = StopOf(*holder);
    const auto end = stop.has_value() ? std::optional(*stop + kGrace) : LearntEndOf(*holder);
    if (end.has_value()) {
      last = std::max(last, *end);
    } else {
      TakePlaces(*holder, &room);
    }
  }
  return FitsGang(room, older) ? std::optional(last) : std::nullopt;
}

// Whether the newly placed gang may be in the way of the older one: that is the oldest that waits,
// or another one does, for neither of which it is too long.
bool Checks::MayPass(const Json& older, const ObjectPtr& placed) const {
  if (!StopOf(*placed).has_value()) {
    return false;
  }
  if (EndsInTime(older, placed)) {
    return true;
  }
  const ObjectPtr first = FirstInLine();
  if (first == nullptr || UidOf(*first) == UidOf(older)) {
    return first == nullptr;  // one that pauses, say, holds a reservation that is not looked into
  }
  context_->Count("a gang that passes one that is not the first");
  return MayGoFirst(*first, *placed) || EndsInTime(*first, placed);
}

// Who but the placed one held something before the departures from that one on, each as it was at
// the first of its own.
std::vector<ObjectPtr> Checks::HoldersBefore(std::size_t departure, const Json& placed) const {
  std::map<std::string, ObjectPtr> holders;  // by uid
  for (std::size_t i = departure; i < departures_.size(); ++i) {
    holders.emplace(UidOf(*departures_[i].job), departures_[i].job);
  }
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (HoldsPlaces(*job)) {
      holders.emplace(UidOf(*job), job);
    }
  }
  holders.erase(UidOf(placed));
  std::vector<ObjectPtr> all;
  for (const auto& [uid, holder] : holders) {
    all.push_back(holder);
  }
  return all;
}

// Whether it is in time, by what is so or by what a round may have known: any of the departures of
// late may have come after it. Precondition: the placed one is stopped some day.
bool Checks::EndsInTime(const Json& older, const ObjectPtr& placed) const {
  context_->Count("a gang that passes an older one");
  for (std::size_t i = 0; i <= departures_.size(); ++i) {
    const bool is_past = i < departures_.size();
    if (EndsInTimeBeside(HoldersBefore(i, *placed), older, placed, is_past)) {
      return true;
    }
  }
  return false;
}

// Whether the newly placed gang, for which the older one has to wait, is stopped when that has its
// room at the latest, or leaves it that room; where limits do not tell when, the same of the moment
// that earlier runs tell. `is_past`: by what was so before somebody left, when more may have been
// known.
bool Checks::EndsInTimeBeside(std::vector<ObjectPtr> holders,
                              const Json& older,
                              const ObjectPtr& placed,
                              bool is_past) const {
  const WallTime end = *StopOf(*placed) + kGrace - kGrantError;
  const auto latest = LatestStart(older, holders);
  const auto expected = latest.has_value() ? std::nullopt : LastExpected(older, holders, nullptr);
  if (!latest.has_value() && !expected.has_value()) {
    return is_past;
  }
  if (end <= latest.value_or(expected.value_or(end))) {
    return true;
  }
  if (!latest.has_value()) {
    return LastExpected(older, holders, placed.get()).has_value();
  }
  holders.push_back(placed);
  const auto beside = LatestStart(older, holders);
  return beside.has_value() && *beside <= *latest;
}

// The oldest that wants places and could have some if nothing else ran; null: nobody does, or one
// before it does not stand in line, as it pauses, or its pods do not end.
ObjectPtr Checks::FirstInLine() const {
  std::optional<AmountsByNode> all;
  ObjectPtr first;
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (!WantsPlaces(*job) || (first != nullptr && !IsOlder(*job, *first))) {
      continue;
    }
    if (!all.has_value()) {
      all = RoomForJobs();
    }
    if (FitsGang(*all, *job)) {
      first = job;
    }
  }
  const bool stands = first != nullptr && StandsInLine(*first) &&
                      !IsPausing(*first, context_->ServerTime() - kCalendarError);
  return stands ? first : nullptr;
}

void Checks::CheckStarvation() {
  const std::vector<std::string> nodes = nodes_->names();
  const bool is_odd = std::any_of(nodes.begin(), nodes.end(), [this](const std::string& node) {
    return nodes_->NeverEnds(node);
  });
  const bool is_asked = context_->HasOneLine() && !context_->has_faults && !is_odd &&
                        server_->terminating.empty() && server_->admission.raised_count == 0 &&
                        context_->now - context_->peace_since >= 4 * kViewLag;
  const ObjectPtr first = is_asked ? FirstInLine() : nullptr;
  if (first == nullptr) {
    turn_.reset();
    return;
  }
  const std::string of = GangIdOf(*first) + "/" + TextAt(*first, "metadata.generation") + "/" +
                         std::to_string(first->at("status").value("rollbacks", int64_t{0}));
  const WallTime now = context_->ServerTime();
  if (!turn_.has_value() || turn_->of != of || cluster_since_ > turn_->since) {
    turn_ = Turn{of, context_->now, now, {}};
  }
  const bool is_new = turn_->since == context_->now;
  bool have_all_gone = true;
  WallTime last = now;
  for (const auto& [key, job] : server_->store().Of(kube::kTrainingJobs).objects) {
    if (!HoldsPlaces(*job)) {
      continue;
    }
    const auto stop = StopOf(*job);
    last = stop.has_value() ? std::max(last, *stop + kGrace) : last;
    if (is_new && stop.has_value()) {
      turn_->due = std::max(turn_->due, *stop + kGrace);
    } else if (is_new) {
      turn_->endless.insert(GangIdOf(*job));
    }
    have_all_gone = have_all_gone && !turn_->endless.contains(GangIdOf(*job));
  }
  if (!turn_->endless.empty() && have_all_gone) {
    turn_->endless.clear();
    turn_->due = std::max(turn_->due, last);  // those that passed had limits
  }
  Require(!turn_->endless.empty() || now <= turn_->due + kStartsWithin,
          TextAt(*first, "metadata.name") +
              ": is the first of its queue, and waits though everything has been stopped that ran "
              "when it came to be");
}

}  // namespace lockstep::control::sim
