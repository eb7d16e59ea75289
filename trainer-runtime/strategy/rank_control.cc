#include "trainer-runtime/strategy/rank_control.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// The totals travel as one list of doubles: five sums, then one slot for each sample of the batch.
// A slot holds id + 1, so that zero means that nobody wrote it and a doubly written slot shows up
// as an id that the batch cannot contain.
enum TotalsSlot : std::size_t {
  kLossSum,
  kCorrectCount,
  kSampleCount,
  kStopRequests,
  kOverflowCount,
  kFirstId
};

}  // namespace

std::vector<double> PackTotals(const StepTotals& mine, int64_t first_slot, int64_t slot_count) {
  std::vector<double> list(kFirstId + static_cast<std::size_t>(slot_count), 0.0);
  list[kLossSum] = mine.loss_sum;
  list[kCorrectCount] = static_cast<double>(mine.correct_count);
  list[kSampleCount] = static_cast<double>(mine.sample_count);
  list[kStopRequests] = static_cast<double>(mine.stop_requests);
  list[kOverflowCount] = static_cast<double>(mine.overflow_count);
  std::size_t slot = kFirstId + static_cast<std::size_t>(first_slot);
  LOCKSTEP_CHECK(slot + mine.sample_ids.size() <= list.size(),
                 "more samples than places in the list of totals");
  for (const int64_t id : mine.sample_ids) {
    list[slot++] = static_cast<double>(id + 1);
  }
  return list;
}

StepTotals UnpackTotals(const std::vector<double>& list) {
  LOCKSTEP_CHECK(list.size() >= kFirstId, "the list of totals is too short");
  StepTotals all;
  all.loss_sum = list[kLossSum];
  all.correct_count = std::llround(list[kCorrectCount]);
  all.sample_count = std::llround(list[kSampleCount]);
  all.stop_requests = std::llround(list[kStopRequests]);
  all.overflow_count = std::llround(list[kOverflowCount]);
  all.sample_ids.reserve(list.size() - kFirstId);
  for (std::size_t i = kFirstId; i < list.size(); ++i) {
    all.sample_ids.push_back(std::llround(list[i]) - 1);
  }
  return all;
}

Result<StepTotals> RankControl::ReduceTotals(const StepTotals& mine, Deadline deadline) {
  std::vector<double> list = PackTotals(mine, 0, 0);
  LOCKSTEP_RETURN_IF_ERROR(communicator_->AllReduce(
      list.data(), list.size(), DataType::kFloat64, ReduceOp::kSum, deadline));
  return UnpackTotals(list);
}

Result<std::string> RankControl::ShareBytes(const std::string& mine,
                                            int source,
                                            Deadline deadline) {
  const bool is_source = rank() == source;
  uint64_t byte_count = is_source ? mine.size() : 0;
  LOCKSTEP_RETURN_IF_ERROR(
      communicator_->Broadcast(&byte_count, sizeof(byte_count), source, deadline));
  if (byte_count > kSharedBytesMax) {
    return Error(ErrorCode::kResourceExhausted,
                 "rank " + std::to_string(source) + " announced a state that is too large: " +
                     std::to_string(byte_count) + " bytes");
  }
  std::string bytes = is_source ? mine : std::string(byte_count, '\0');
  LOCKSTEP_RETURN_IF_ERROR(communicator_->Broadcast(bytes.data(), byte_count, source, deadline));
  return bytes;
}

Result<std::optional<int>> RankControl::LowestRank(bool is_one, Deadline deadline) {
  int32_t lowest = is_one ? rank() : world_size();
  LOCKSTEP_RETURN_IF_ERROR(
      communicator_->AllReduce(&lowest, 1, DataType::kInt32, ReduceOp::kMin, deadline));
  return lowest < world_size() ? std::optional<int>(lowest) : std::nullopt;
}

Result<int64_t> RankControl::CountRanks(bool is_one, Deadline deadline) {
  int64_t count = is_one ? 1 : 0;
  LOCKSTEP_RETURN_IF_ERROR(
      communicator_->AllReduce(&count, 1, DataType::kInt64, ReduceOp::kSum, deadline));
  return count;
}

}  // namespace lockstep::runtime
