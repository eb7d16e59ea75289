#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/prng.h"
#include "common/base/time.h"

namespace lockstep::control::sim {

// Where the jobs are.
inline constexpr const char* kNamespace = "team";

// What nodes of one rack share.
inline constexpr const char* kRackLabel = "example.com/rack";

// What all parts of one simulated cluster share: time, chance, and what is told of it.
struct SimContext {
  // Bad users come where they are let, and then in every fifth run.
  explicit SimContext(uint64_t seed, bool lets_bad_users = false)
      : prng(seed),
        has_shares(seed % 3 == 2),
        shares_prng(seed + 1),
        limits_prng(seed + 3),
        learns_run_times(seed % 11 == 1),
        regulars_prng(seed + 5),
        has_autoscaler(seed % 7 == 3),
        autoscaler_prng(seed + 7),
        has_bad_users(lets_bad_users && seed % 5 == 4),
        has_racks(has_bad_users && seed % 15 == 4 && !has_autoscaler),
        has_fair_queues(has_bad_users && seed % 15 == 9 && !has_autoscaler),
        has_older_release(has_bad_users && seed % 30 == 14),
        bad_users_prng(seed + 9),
        older_release(has_older_release ? std::optional<std::string>("elsewhere/older")
                                        : std::nullopt) {}

  Prng prng;
  bool has_shares = false;        // queues share the cluster, and jobs have priorities
  Prng shares_prng;               // of those alone: the other seeds are what they would be without
  bool has_limits = false;        // queues say how long their jobs may run
  Prng limits_prng;               // of those alone
  bool has_queues = false;        // operators watch queues and priority classes
  bool learns_run_times = false;  // operators do, and users run the same again and again
  Prng regulars_prng;             // of those alone
  bool has_autoscaler = false;    // there is one, and some jobs ask it for nodes
  Prng autoscaler_prng;           // of that alone
  bool has_bad_users = false;     // whose manifests are large, unreadable, or ask for what is not
  bool has_racks = false;         // nodes are in one, and jobs must be; of those runs
  bool has_fair_queues = false;   // two share the cluster evenly; of those runs
  // Another operator serves the queues, until peace; of those runs.
  bool has_older_release = false;
  Prng bad_users_prng;  // of those alone
  TimePoint now{std::chrono::hours(1)};
  bool has_faults = true;
  TimePoint peace_since{};
  TimePoint quota_since{};                   // the ResourceQuota that the server shows is as it is
  std::optional<std::string> older_release;  // its lease, while it is there
  // Of the last time in which operators heard nothing of the cluster.
  TimePoint outage_since{};
  TimePoint outage_until{};
  std::function<void(const std::string&)> trace;  // null: nobody listens

  // The API server's calendar. Operators have their own.
  WallTime ServerTime() const {
    return WallTime(std::chrono::seconds(1'800'000'000)) +
           std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch());
  }

  // Whether gangs stand in one line: no queue, and no rack, sets some apart.
  bool HasOneLine() const { return !has_shares && !has_racks && !has_fair_queues; }

  // What operators are told of levels of nodes.
  std::vector<std::string> Levels() const {
    return has_racks ? std::vector<std::string>{kRackLabel} : std::vector<std::string>();
  }

  int64_t work_max = 0;  // bytes that one step of an operator took

  // What the adversary has done so far, by the move's name.
  std::map<std::string, int64_t> moves;

  void Count(const std::string& move) { ++moves[move]; }

  // A fault that happens once in `odds` chances; never in peace.
  bool Strikes(uint64_t odds) { return has_faults && prng.Below(odds) == 0; }

  // Something ordinary that happens once in `odds` chances.
  bool Happens(uint64_t odds) { return prng.Below(odds) == 0; }

  Duration Between(std::chrono::milliseconds min, std::chrono::milliseconds max) {
    return min + Duration(prng.Below(static_cast<uint64_t>(Duration(max - min).count()) + 1));
  }

  void Tell(const std::string& what) const {
    if (trace) {
      trace(what);
    }
  }
};

}  // namespace lockstep::control::sim
