#include "operator/scheduler/reservation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operator/scheduler/placer.h"

namespace lockstep::control {
namespace {

// The running gangs that have ended by some moment are looked away from.
class Future {
 public:
  Future(Statement* statement, const GangRecord& gang, int64_t search_steps_max)
      : statement_(*statement),
        gang_(gang),
        search_steps_max_(search_steps_max),
        stopping_(statement->state().stopping().begin(), statement->state().stopping().end()) {
    for (const GangRecord* const leaving : statement_.state().leaving()) {
      statement_.Vacate(*leaving);
    }
  }

  ~Future() {
    GoTo(0);
    for (const GangRecord* const leaving : statement_.state().leaving()) {
      statement_.Reoccupy(*leaving);
    }
  }

  Future(const Future&) = delete;
  Future& operator=(const Future&) = delete;

  // The fewest that have to have ended: what fits beside some fits beside fewer.
  std::optional<WallTime> FirstFit() {
    if (Fits(0)) {
      return statement_.now();
    }
    if (!Fits(stopping_.size())) {
      return std::nullopt;
    }
    std::size_t too_few = 0;
    std::size_t enough = stopping_.size();
    while (enough - too_few > 1) {
      const std::size_t middle = too_few + (enough - too_few) / 2;
      (Fits(middle) ? enough : too_few) = middle;
    }
    return std::max(stopping_[enough - 1]->run.stops_at, statement_.now());
  }

 private:
  bool Fits(std::size_t ended_count) {
    GoTo(ended_count);
    const NodeLedger& nodes = statement_.state().nodes();
    return MayFitNow(nodes, gang_) &&
           statement_.state().queues().Allows(*gang_.queue, gang_.total) &&
           PlaceGang(nodes, gang_, {nullptr, true, search_steps_max_}).pods.has_value();
  }

  void GoTo(std::size_t ended_count) {
    for (; ended_count_ < ended_count; ++ended_count_) {
      statement_.Vacate(*stopping_[ended_count_]);
    }
    for (; ended_count_ > ended_count; --ended_count_) {
      statement_.Reoccupy(*stopping_[ended_count_ - 1]);
    }
  }

  Statement& statement_;
  const GangRecord& gang_;
  int64_t search_steps_max_;
  std::vector<const GangRecord*> stopping_;
  std::size_t ended_count_ = 0;
};

}  // namespace

std::optional<WallTime> ReservationFor(Statement* statement,
                                       const GangRecord& gang,
                                       int64_t search_steps_max) {
  return Future(statement, gang, search_steps_max).FirstFit();
}

}  // namespace lockstep::control
