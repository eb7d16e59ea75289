#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

// Sample counts of a run so far. `lost` and `repeated` of the running data epoch join when it is
// closed.
struct SampleTotals {
  int64_t consumed = 0;  // samples used by steps, repetitions included
  int64_t expected = 0;  // samples that the closed data epochs should have used
  int64_t lost = 0;      // expected and not used
  int64_t repeated = 0;  // used once too often, each surplus use counted

  friend bool operator==(const SampleTotals&, const SampleTotals&) = default;
};

// The proof that no sample is lost or used twice: counts each sample that the ranks say they used,
// and compares with what the data epoch should have used when it ends. It knows nothing of the
// shard plan, so a fault of the plan shows here.
//
// Part of the state: travels with checkpoints and between ranks. Thread: one.
class SampleLedger {
 public:
  // Precondition (checked): sample_count >= 0.
  explicit SampleLedger(int64_t sample_count);

  // Counts one use of each of `ids`: what all ranks together used in one step.
  // Errors: kCorrupt (an id outside [0, sample_count), or one sample used 65,535 times); nothing is
  // counted then.
  Status Add(std::span<const int64_t> ids);

  // Ends the running data epoch, which should have used each of `expected` once: the positions up
  // to the last step's end, so also right for a job that ends in mid-epoch. Clears the counters.
  // Precondition (checked): ids in range.
  void CloseEpoch(std::span<const int64_t> expected);

  // The totals as they would be if the running data epoch ended now, after `expected`.
  SampleTotals TotalsIfClosed(std::span<const int64_t> expected) const;

  const SampleTotals& totals() const { return totals_; }

  // Uses counted in the running data epoch.
  int64_t open_count() const;

  int64_t sample_count() const { return static_cast<int64_t>(uses_.size()); }

  // Two ledgers of equal content give equal bytes. Layout: "LSLEDGR1", then little-endian 64-bit
  // sample_count, consumed, expected, lost, repeated, then sample_count 16-bit counters.
  std::string Serialize() const;

  // Errors: kCorrupt (wrong magic, length or a negative total).
  static Result<SampleLedger> Deserialize(std::string_view bytes);

  friend bool operator==(const SampleLedger&, const SampleLedger&) = default;

 private:
  std::vector<uint16_t> uses_;  // of the running data epoch, by sample id
  SampleTotals totals_;
};

}  // namespace lockstep::runtime
