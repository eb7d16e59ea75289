#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "operator/scheduler/state/past_runs.h"

namespace lockstep::control {

// A gang that has run from its start to its end.
struct EndedRun {
  WallTime ended_at;
  std::string id;  // another one for every run
  std::chrono::milliseconds run_time{};
};

// Learns how long gangs run, for those that do not say it, from those that have ended. A gang is of
// several *kinds*, the narrowest first, such as "this manifest of this namespace" and "this image
// and size". What is told of it is of the narrowest kind of which enough runs are known.
//
// Kept are the last few runs of a kind, and a gang is thought to run as long as the longest of them
// did. Why not their mean: whoever is thought shorter than it is makes a reservation late, and a
// mean is too short for every other one; and a few, as what was long ago says little
// (docs/contributing/replay.md has the figures).
//
// What was learnt does not depend on the order in which runs became known; one that is told of
// twice counts once. Thread: one.
class RunTimeHistory {
 public:
  // Choices. One run alone does not tell how much the next may differ.
  struct Options {
    std::size_t runs_max = 5;   // of a kind; older ones are forgotten
    std::size_t count_min = 2;  // of a kind, before anything is told of it
    // Kinds; those are forgotten of which nobody has run for longest. A kind takes 1 KB at most.
    std::size_t kinds_max = 4'096;
  };

  explicit RunTimeHistory(const Options& options) : options_(options) {}

  void Learn(const std::vector<std::string>& kinds, const EndedRun& run);

  // Of a gang of these kinds; none: nothing is known.
  PastRuns Recall(const std::vector<std::string>& kinds) const;

  std::size_t kind_count() const { return by_kind_.size(); }

 private:
  using Run = std::tuple<WallTime, std::string, std::chrono::milliseconds>;

  Options options_;
  std::map<std::string, std::set<Run>> by_kind_;          // none is empty
  std::set<std::pair<WallTime, std::string>> by_newest_;  // kinds by the end of their last run
};

}  // namespace lockstep::control
