#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/strong_id.h"

namespace lockstep::runtime {

// Values that several messages hold at once, and nobody changes any more: that is why they are
// shared.
using SharedValues = std::shared_ptr<const std::vector<float>>;

// One process of one worker. A worker's pushes are numbered from 1, its processes together: each
// number is one share of the work, which counts once whichever of them does it.
struct WorkerProcess {
  int worker = 0;
  Incarnation incarnation;

  friend bool operator==(const WorkerProcess&, const WorkerProcess&) = default;
};

// What the gradient of a push was computed on, and what it came to.
struct StepSums {
  int64_t data_epoch = 0;
  double loss_sum = 0;
  int64_t correct_count = 0;
  int64_t sample_count = 0;

  friend bool operator==(const StepSums&, const StepSums&) = default;
};

// Data epochs whose sums a shard keeps: the newest. Choice: workers are seldom in more than two,
// but of small ones many pass while worker 0, who tells of each, is being replaced.
inline constexpr std::size_t kSummedDataEpochs = 64;

// A gate that is open for all steps.
inline constexpr int64_t kGateOpen = std::numeric_limits<int64_t>::max();

// Everything that changes a shard. Two copies that have taken the same entries in the same order
// are equal to the last bit.
namespace entry {
struct Seed {  // what training begins with; only the first one counts
  SharedValues parameters;
  SharedValues slots;
  int64_t update_count = 0;  // that they have behind them
  int64_t gate = kGateOpen;
  std::string note;  // of whoever seeds, for the other workers; opaque here
};

struct Open {  // lets workers on to steps up to `gate`; a lower one changes nothing
  int64_t gate = 0;
};

struct Admit {  // the process takes part from here on
  WorkerProcess process;
};

struct Push {  // one gradient, which becomes one update
  WorkerProcess process;
  int64_t sequence = 0;
  SharedValues gradient;
  StepSums sums;
};

struct Retire {  // processes of the worker below that incarnation take part no more
  int worker = 0;
  Incarnation below;
};
}  // namespace entry

using ShardEntry = std::variant<entry::Seed, entry::Admit, entry::Push, entry::Retire, entry::Open>;

// How far a worker has come on a shard.
struct WorkerStanding {
  Incarnation incarnation;  // lower ones are refused
  bool is_present = false;  // that incarnation takes part
  int64_t sequence = 0;     // of its last push, whichever of its processes made it; 0: none
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
  int64_t gate = kGateOpen;          // no step beyond this update is begun
  std::string note;                  // the seed's
  int64_t sample_count = 0;          // of all pushes
  std::map<int64_t, StepSums> sums;  // by data epoch: of all pushes, the newest kSummedDataEpochs
  std::map<int, WorkerStanding> workers;

  friend bool operator==(const ShardContent&, const ShardContent&) = default;

  // Takes the next entry. Preconditions (checked): a push is its worker's next one, of the shard's
  // size, and the shard is seeded.
  void Take(const ShardEntry& entry, const UpdateRule& rule);

  // Whether Take's preconditions hold, and a seed has `slot_count` slots for each parameter. Empty:
  // any number of them.
  bool Fits(const ShardEntry& entry, std::optional<int64_t> slot_count) const;

  // Whether the values are whole, as for Fits.
  bool IsWhole(std::optional<int64_t> slot_count) const;

  PushStanding Judge(const WorkerProcess& process, int64_t sequence) const;

  // Whether the process takes part.
  bool Knows(const WorkerProcess& process) const;

  // Whether processes of the worker below `incarnation` only are known.
  bool IsOutdated(const WorkerProcess& process) const;

  // Of all that take part and are not `resting`; empty: nobody does.
  std::optional<int64_t> SlowestClock(const std::set<int>& resting = {}) const;

  // Whether the worker may begin its next step: it is at most `max_staleness` steps ahead of the
  // slowest that does not rest. Precondition (checked): it takes part.
  bool MayBegin(int worker, int64_t max_staleness, const std::set<int>& resting = {}) const;

 private:
  void Take(const entry::Seed& seed, const UpdateRule& rule);
  void Take(const entry::Admit& admit, const UpdateRule& rule);
  void Take(const entry::Push& push, const UpdateRule& rule);
  void Take(const entry::Retire& retire, const UpdateRule& rule);
  void Take(const entry::Open& open, const UpdateRule& rule);
};

}  // namespace lockstep::runtime
