#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "common/base/strong_id.h"

namespace lockstep::runtime {

// Values that several messages hold at once, and nobody changes any more: that is why they are
// shared.
using SharedValues = std::shared_ptr<const std::vector<float>>;

// One process of one worker. A worker's pushes are numbered from 1 for each process.
struct WorkerProcess {
  int worker = 0;
  Incarnation incarnation;

  friend bool operator==(const WorkerProcess&, const WorkerProcess&) = default;
};

// Everything that changes a shard. Two copies that have taken the same entries in the same order
// are equal to the last bit.
namespace entry {
struct Seed {  // what training begins with; only the first one counts
  SharedValues parameters;
  SharedValues slots;
  int64_t update_count = 0;  // that they have behind them
};

struct Admit {  // the process takes part from here on
  WorkerProcess process;
};

struct Push {  // one gradient, which becomes one update
  WorkerProcess process;
  int64_t sequence = 0;
  SharedValues gradient;
};

struct Retire {  // processes of the worker below that incarnation take part no more
  int worker = 0;
  Incarnation below;
};
}  // namespace entry

using ShardEntry = std::variant<entry::Seed, entry::Admit, entry::Push, entry::Retire>;

// How far a worker has come on a shard.
struct WorkerStanding {
  Incarnation incarnation;  // lower ones are refused
  bool is_present = false;  // that incarnation takes part
  int64_t sequence = 0;     // of its last push; 0: none
  int64_t clock = 0;        // its steps, counted so that a newcomer stands where the slowest does

  friend bool operator==(const WorkerStanding&, const WorkerStanding&) = default;
};

// What a push is to a shard that is asked to take it.
enum class PushStanding {
  kNext,      // to be applied
  kDone,      // applied before
  kTooEarly,  // one before it is missing: not the protocol
  kOutdated   // of a process that takes part no more
};

// One update of the shard's values by one gradient. `update_number` counts from 1. The slots are
// the shard's, slot after slot, as for ApplyOptimizer. Equal arguments give equal results on every
// machine, to the last bit.
using UpdateRule = std::function<void(int64_t update_number,
                                      std::span<const float> gradient,
                                      std::vector<float>* parameters,
                                      std::vector<float>* slots)>;

// All that a shard holds: what its entries have made of it.
struct ShardContent {
  int64_t entry_count = 0;
  bool is_seeded = false;
  int64_t update_count = 0;  // the updates that the values have behind them
  std::vector<float> parameters;
  std::vector<float> slots;
  std::map<int, WorkerStanding> workers;

  friend bool operator==(const ShardContent&, const ShardContent&) = default;

  // Takes the next entry. Preconditions (checked): a push is its worker's next one, of the shard's
  // size, and the shard is seeded.
  void Take(const ShardEntry& entry, const UpdateRule& rule);

  PushStanding Judge(const WorkerProcess& process, int64_t sequence) const;

  // Whether the process takes part.
  bool Knows(const WorkerProcess& process) const;

  // Whether processes of the worker below `incarnation` only are known.
  bool IsOutdated(const WorkerProcess& process) const;

  // Of all that take part; empty: nobody does.
  std::optional<int64_t> SlowestClock() const;

  // Whether the worker may begin its next step: it is at most `max_staleness` steps ahead of the
  // slowest. Having been true it stays so until the worker pushes, as the slowest never goes back.
  // Precondition (checked): it takes part.
  bool MayBegin(int worker, int64_t max_staleness) const;

 private:
  void Take(const entry::Seed& seed, const UpdateRule& rule);
  void Take(const entry::Admit& admit, const UpdateRule& rule);
  void Take(const entry::Push& push, const UpdateRule& rule);
  void Take(const entry::Retire& retire, const UpdateRule& rule);
};

}  // namespace lockstep::runtime
