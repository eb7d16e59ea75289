#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

namespace lockstep::runtime {

// What one rank brings to a step besides gradients, and what all ranks together brought.
struct StepTotals {
  double loss_sum = 0;
  int64_t correct_count = 0;
  int64_t sample_count = 0;
  int64_t stop_requests = 0;        // ranks that were asked to stop
  int64_t overflow_count = 0;       // replicas with gradients that are not finite in Float16
  std::vector<int64_t> sample_ids;  // by slot of the global batch; -1 where nobody read one
};

// The totals as they travel: `mine.sample_ids` fill the slots from `first_slot` of a global batch
// of `slot_count`, and the sum of all ranks' lists, element by element, is the list of all. Exact
// for counts and ids below 2^53.
std::vector<double> PackTotals(const StepTotals& mine, int64_t first_slot, int64_t slot_count);
StepTotals UnpackTotals(const std::vector<double>& list);

// Largest text that is sent between ranks: far above what they tell each other, so that a damaged
// length is refused before memory is asked for. Choice.
inline constexpr uint64_t kSharedBytesMax = uint64_t{1} << 39U;

// What the ranks of one meeting tell each other besides gradients, under every strategy.
// Thread: the training thread only. `communicator` must outlive this object.
class RankControl {
 public:
  explicit RankControl(Communicator* communicator) : communicator_(communicator) {}

  int rank() const { return communicator_->rank(); }

  int world_size() const { return communicator_->world_size(); }

  // Adds up the totals of all ranks, which have no sample ids.
  Result<StepTotals> ReduceTotals(const StepTotals& mine, Deadline deadline);

  // Gives every rank the bytes of rank `source`. Returns what `source` gave; `mine` is only read
  // there. Errors: those of Communicator; kResourceExhausted (a length above kSharedBytesMax).
  Result<std::string> ShareBytes(const std::string& mine, int source, Deadline deadline);

  // Gives the values of rank `source`, of the same count on every rank, to those that do not hold
  // them already, straight into `values`. Errors: those of Communicator; `values` may then be the
  // source's in part.
  Status FillValues(std::span<float> values, int source, bool holds, Deadline deadline) {
    return communicator_->Fill(values.data(), values.size_bytes(), source, holds, deadline);
  }

  // How many ranks say yes.
  Result<int64_t> CountRanks(bool is_one, Deadline deadline);

  // The lowest rank that says yes; empty: none does.
  Result<std::optional<int>> LowestRank(bool is_one, Deadline deadline);

  // Communicator::LentBy and CheckHealth, of values.
  const float* LentBy(int source, std::span<const float> values) const {
    return reinterpret_cast<const float*>(
        communicator_->LentBy(source, values.data(), values.size_bytes()));
  }

  Status CheckHealth() { return communicator_->CheckHealth(); }

  // Returns once every rank has called it.
  Status Barrier(Deadline deadline) { return communicator_->Barrier(deadline); }

 private:
  Communicator* communicator_;
};

}  // namespace lockstep::runtime
