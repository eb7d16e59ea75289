#include "operator/scheduler/reservation_book.h"

#include <chrono>
#include <string>

namespace lockstep::control {
namespace {

// Reservations that a round works out to let others pass. Choice: a millisecond's worth on
// thousands of nodes; who comes after that waits.
constexpr int kReservationsMax = 8;

// "2026-11-24T14:20Z"
std::string MinuteOf(WallTime when) {
  return FormatRfc3339(when).substr(0, 16) + "Z";
}

// ", when default/a may have ended: the last 3 runs of its kind took 41 to 44 min"
std::string WhatWasLearnt(const GangRecord& gang, WallTime now) {
  return ", when " + gang.request.name + " may have ended: " + ToText(gang.request.past_runs) +
         (*LearntEndOf(gang) <= now ? ", and it has run for longer" : "");
}

}  // namespace

ReservationBook::ReservationBook(Statement* statement, int64_t search_steps_max)
    : statement_(*statement), search_steps_max_(search_steps_max), left_(kReservationsMax) {}

bool ReservationBook::IsStopped(const GangRecord& gang) const {
  const ClusterState& state = statement_.state();
  return (!state.stopping().empty() || !state.expecting().empty()) &&
         EndOf(gang.request, statement_.now()).has_value();
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

std::optional<Reservation> ReservationBook::Find(const GangRecord& waiting, EndsBy by) {
  if (const auto* const known = FindKnown(waiting, by)) {
    return *known;
  }
  const auto found = ReservationFor(&statement_, waiting, by, search_steps_max_);
  known_[{&waiting, by}] = {statement_.checkpoint(), found};
  return found;
}

std::optional<Reservation> ReservationBook::FindToPass(const GangRecord& waiting, EndsBy by) {
  if (FindKnown(waiting, by) == nullptr) {
    if (left_ == 0) {
      return std::nullopt;
    }
    --left_;
  }
  return Find(waiting, by);
}

bool ReservationBook::EndsBefore(const GangRecord& gang, const GangRecord& waiting) {
  if (asked_ != &gang) {
    asked_ = &gang;
    asked_about_.clear();
  }
  asked_about_.push_back(&waiting);
  const WallTime now = statement_.now();
  const WallTime stop = *EndOf(gang.request, now);
  const auto expected = FindToPass(waiting, Where(EndsBy::kPastRuns));
  if (!expected || stop <= expected->at) {
    return expected.has_value();
  }
  if (*ExpectedEndOf(gang.request, now) > expected->at ||
      Where(EndsBy::kPastRuns) == EndsBy::kLimits) {
    return false;
  }
  const auto latest = FindToPass(waiting, EndsBy::kLimits);
  return latest && stop <= latest->at;
}

void ReservationBook::NotePassed() {
  const std::size_t now = statement_.checkpoint();
  for (const GangRecord* const waiting : asked_about_) {
    for (const EndsBy by : {EndsBy::kLimits, EndsBy::kPastRuns}) {
      const auto known = known_.find({waiting, by});
      if (known != known_.end() && known->second.checkpoint + 1 == now) {
        known->second.checkpoint = now;
      }
    }
  }
}

void ReservationBook::AddStart(const GangRecord& waiting, Unschedulable* why) {
  const ClusterState& state = statement_.state();
  if (state.stopping().empty() && state.expecting().empty()) {
    return;
  }
  const WallTime now = statement_.now();
  const auto start = Find(waiting, Where(EndsBy::kCorrections));
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
