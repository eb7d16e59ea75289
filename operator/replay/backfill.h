#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/replay/timeline.h"
#include "operator/scheduler/plan.h"
#include "operator/scheduler/room.h"

namespace lockstep::control {

// A gang that waits, and how long it is expected to run once it does.
struct BackfillGang {
  std::string name;
  std::vector<PodClass> classes;  // the largest requests first
  int64_t weight = 1;             // how much a second of its waiting counts: its GPUs
  WallTime since;                 // when it came
  std::chrono::milliseconds estimate{};
};

struct BackfillStart {
  std::string gang;
  Plan plan;
};

// The moment that is kept for the head of the queue.
struct HeadReservation {
  std::string gang;
  WallTime at;
};

// Starts waiting gangs: the head when it fits, and beside it whoever does not delay it, the
// shortest first.
//
// Words: a gang's *ratio* is its waiting time times its weight, over its estimate; a gang that has
// waited for `starvation_limit` is *starving*. The *head* is the oldest starving gang; where there
// is none, the gang of the highest ratio. It holds a *reservation*: the earliest moment at which it
// fits, by the estimates of those who run (Timeline).
//
// Rule: another gang starts where it fits now, and either is expected to end by then, or leaves
// the head enough room at that moment. Gangs that would not fit an empty cluster reserve nothing.
//
// Why the ratio: short gangs need not wait for long ones, and long ones rise all the same, the
// sooner the larger they are; a queue in order of arrival (EASY) makes the head of whoever happened
// to come first, mostly one that a backfill would have served (docs/replay.md has the figures).
//
// Bound: let no gang run for longer than estimated, E be the longest estimate of any, and n be the
// number of gangs that wait, older than this one, when it starts to starve. Then it has started at
// the latest `starvation_limit` + (n + 1) * E after it came: younger ones are never the head any
// more, a starving head's reservation lies at most E ahead and never moves back, and each may be
// followed by the next. A head that does not starve may lose its place, and its reservation, to one
// whose ratio has overtaken its own.
//
// Determinism: equal events give equal answers; ties go to the older gang, then by name.
// Cost of a pass: one walk over who waits for each head; for the rest one try for each kind of
// gang, and one for each that starts. Thread: one.
class Backfill {
 public:
  // Choices. The limit trades the longest wait for the mean one: docs/replay.md. The floor keeps
  // gangs that end at once from passing all others.
  struct Options {
    std::chrono::milliseconds starvation_limit = std::chrono::hours(72);
    std::chrono::milliseconds estimate_floor = std::chrono::minutes(10);
  };

  // `rooms` as in Timeline, which nobody else takes anything of.
  Backfill(std::vector<NodeRoom> rooms, const Options& options)
      : options_(options), empty_rooms_(rooms), timeline_(std::move(rooms)) {}

  // The gang waits. Precondition (checked): it is not known yet.
  void Submit(const BackfillGang& gang);
  // It waits no more, or has ended. Nothing happens where nobody knows it.
  void Remove(const std::string& gang);

  // Who starts now; they run from then on.
  std::vector<BackfillStart> Pass(WallTime now);

  // What is kept for the head; empty where nobody waits whom the cluster could hold.
  std::optional<HeadReservation> Reservation(WallTime now) const;

  std::size_t waiting_count() const { return waiting_.size(); }

  const Timeline& timeline() const { return timeline_; }

 private:
  using KindIndex = std::size_t;
  // Gangs of one kind ask for the same; the shortest first, then the oldest, then by name.
  using Order = std::tuple<std::chrono::milliseconds, WallTime, std::string>;

  struct Waiting {
    BackfillGang gang;
    KindIndex kind = 0;
  };

  struct Kind {
    std::vector<PodClass> classes;
    bool is_possible = false;  // in an empty cluster
    std::set<Order> waiting;
  };

  // What one pass knows.
  struct PassState {
    WallTime now;
    std::vector<bool> is_done;  // by kind: no further one of it can start
    const Waiting* head = nullptr;
    std::optional<Opening> opening;  // of the head
    std::vector<BackfillStart> starts;
  };

  static Order OrderOf(const BackfillGang& gang);
  KindIndex KindOf(const BackfillGang& gang);
  const Waiting* Head(WallTime now) const;
  void StartHeads(PassState* pass);
  void FillBeside(PassState* pass);
  const Waiting* Shortest(const PassState& pass) const;
  bool LeavesHead(const Waiting& waiting, const std::vector<Fill>& fills, PassState* pass) const;
  void Start(const Waiting& waiting, const std::vector<Fill>& fills, PassState* pass);

  Options options_;
  std::vector<NodeRoom> empty_rooms_;
  Timeline timeline_;
  std::map<std::string, Waiting> waiting_;
  std::vector<Kind> kinds_;
};

}  // namespace lockstep::control
