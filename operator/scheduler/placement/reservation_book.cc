#include "operator/scheduler/placement/reservation_book.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

namespace lockstep::control {
namespace {

// Running gangs that a round looks away from to let others pass. Choice: some milliseconds' worth.
constexpr int64_t kWalksMax = 1'000;

// The same for one that is told when it starts.
constexpr int64_t kWalksUnbounded = std::numeric_limits<int64_t>::max();

// "2026-11-24T14:20Z"
std::string MinuteOf(WallTime when) {
  return FormatRfc3339(when).substr(0, 16) + "Z";
}

// ", when default/a is expected to end: the last 3 runs of similar jobs took 41 to 44 min"
std::string WhatWasLearnt(const GangRecord& gang, WallTime now) {
  return ", when " + gang.request.name + " is expected to end: " + ToText(gang.request.past_runs) +
         (*LearntEndOf(gang) <= now ? ", but this run already takes longer" : "");
}

}  // namespace

ReservationBook::ReservationBook(Statement* statement, int64_t search_steps_max)
    : statement_(*statement), search_steps_max_(search_steps_max), walks_left_(kWalksMax) {}

bool ReservationBook::IsReserved(const GangRecord& waiting) {
  const ClusterState& state = statement_.state();
  return (!state.stopping().empty() || !state.expecting().empty()) &&
         FindToPass(waiting, Where(EndsBy::kPastRuns)).has_value();
}

// Where nothing was learnt it is all the same.
EndsBy ReservationBook::Where(EndsBy by) const {
  return statement_.state().expecting().empty() ? EndsBy::kLimits : by;
}

const std::optional<Reservation>* ReservationBook::FindKnown(const GangRecord& waiting,
                                                             EndsBy by) const {
  const auto found = known_.find({&waiting, by});
  return found == known_.end() || found->second.checkpoint != statement_.checkpoint()
             ? nullptr
             : &found->second.reservation;
}

std::optional<Reservation> ReservationBook::Find(const GangRecord& waiting,
                                                 EndsBy by,
                                                 int64_t* walks_left) {
  if (const auto* const known = FindKnown(waiting, by)) {
    return *known;
  }
  const auto found = ReservationFor(&statement_, waiting, by, search_steps_max_, walks_left);
  known_[{&waiting, by}] = {statement_.checkpoint(), found};
  return found;
}

std::optional<Reservation> ReservationBook::FindToPass(const GangRecord& waiting, EndsBy by) {
  return Find(waiting, by, &walks_left_);
}

const GangRecord* ReservationBook::StartBeside(const GangRecord& gang,
                                               const Operation& start,
                                               const std::vector<const GangRecord*>& heads) {
  std::vector<const GangRecord*> touched;
  for (const GangRecord* const waiting : heads) {
    if (!EndsBefore(gang, *waiting)) {
      FindToPass(*waiting, EndsBy::kLimits);  // as it is before the start
      touched.push_back(waiting);
    }
  }
  const std::size_t before = statement_.checkpoint();
  statement_.Do(start);
  const auto put_off = std::find_if(touched.begin(), touched.end(), [&](const GangRecord* waiting) {
    return !LeavesRoom(gang, *waiting, before);
  });
  if (put_off != touched.end()) {
    statement_.RollBack(before);
    return *put_off;
  }
  for (auto& [key, known] : known_) {
    if (known.checkpoint == before &&
        std::find(heads.begin(), heads.end(), key.first) != heads.end()) {
      known.checkpoint = statement_.checkpoint();
    }
  }
  return nullptr;
}

// Whether the gang is gone when the one that waits needs its room.
bool ReservationBook::EndsBefore(const GangRecord& gang, const GangRecord& waiting) {
  const WallTime now = statement_.now();
  const std::optional<WallTime> stop = EndOf(gang.request, now);
  const auto expected = FindToPass(waiting, Where(EndsBy::kPastRuns));
  if (!expected || !stop || *stop <= expected->at) {
    return expected && stop;
  }
  if (*ExpectedEndOf(gang.request, now) > expected->at ||
      Where(EndsBy::kPastRuns) == EndsBy::kLimits) {
    return false;
  }
  const auto latest = FindToPass(waiting, EndsBy::kLimits);
  return latest && *stop <= latest->at;
}

// Whether the one that waits has its room as soon as it had it before the last start, the gang's.
bool ReservationBook::LeavesRoom(const GangRecord& gang,
                                 const GangRecord& waiting,
                                 std::size_t before) {
  const auto is_reserved = [&](const auto& known) {
    return known != known_.end() && known->second.checkpoint == before && known->second.reservation;
  };
  // A head without a latest start has only its expected start. The gang must be stopped by then:
  // what was learnt of it does not count.
  const bool is_gang_learnt = is_reserved(known_.find({&waiting, EndsBy::kLimits}));
  for (const EndsBy by : {Where(EndsBy::kPastRuns), EndsBy::kLimits}) {
    const auto known = known_.find({&waiting, by});
    const bool is_known = known != known_.end() && known->second.checkpoint == before;
    if (!is_known || (!is_reserved(known) && by == Where(EndsBy::kPastRuns))) {
      return false;
    }
    if (is_reserved(known) && !StillFits(&*known->second.reservation,
                                         gang,
                                         &statement_,
                                         waiting,
                                         by,
                                         is_gang_learnt,
                                         search_steps_max_,
                                         &walks_left_)) {
      return false;
    }
  }
  return true;
}

void ReservationBook::AddStart(const GangRecord& waiting, Unschedulable* why) {
  const ClusterState& state = statement_.state();
  if (state.stopping().empty() && state.expecting().empty()) {
    return;
  }
  const WallTime now = statement_.now();
  int64_t walks_left = kWalksUnbounded;
  const EndsBy by = Where(EndsBy::kCorrections);
  if (const auto* const known = FindKnown(waiting, by); known != nullptr && !*known) {
    known_.erase({&waiting, by});  // it may have been given up
  }
  const auto start = Find(waiting, by, &walks_left);
  if (!start || start->at <= now) {
    return;
  }
  why->estimated_start = std::chrono::ceil<std::chrono::minutes>(start->at);
  why->shortfall += "; estimated start about " + MinuteOf(*why->estimated_start);
  if (start->learnt_of != nullptr) {
    why->shortfall += WhatWasLearnt(*start->learnt_of, now);
  }
}

}  // namespace lockstep::control
