#include "trainer-runtime/strategy/rank_control.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// The totals travel as one list of doubles: four sums, then one slot for each sample of the batch.
// A slot holds id + 1, so that zero means that nobody wrote it and a doubly written slot shows up
// as an id that the batch cannot contain.
enum TotalsSlot : std::size_t { kLossSum, kCorrectCount, kSampleCount, kStopRequests, kFirstId };

// Values that are sent at once: 1 MiB, which stays in cache from its receipt to its place. Choice.
constexpr std::size_t kPieceCount = std::size_t{1} << 18U;

}  // namespace

std::vector<double> PackTotals(const StepTotals& mine, int64_t first_slot, int64_t slot_count) {
  std::vector<double> list(kFirstId + static_cast<std::size_t>(slot_count), 0.0);
  list[kLossSum] = mine.loss_sum;
  list[kCorrectCount] = static_cast<double>(mine.correct_count);
  list[kSampleCount] = static_cast<double>(mine.sample_count);
  list[kStopRequests] = static_cast<double>(mine.stop_requests);
  std::size_t slot = kFirstId + static_cast<std::size_t>(first_slot);
  LOCKSTEP_CHECK(slot + mine.sample_ids.size() <= list.size(), "more samples than slots");
  for (const int64_t id : mine.sample_ids) {
    list[slot++] = static_cast<double>(id + 1);
  }
  return list;
}

StepTotals UnpackTotals(const std::vector<double>& list) {
  LOCKSTEP_CHECK(list.size() >= kFirstId, "no list of totals");
  StepTotals all;
  all.loss_sum = list[kLossSum];
  all.correct_count = std::llround(list[kCorrectCount]);
  all.sample_count = std::llround(list[kSampleCount]);
  all.stop_requests = std::llround(list[kStopRequests]);
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
                 "rank " + std::to_string(source) + " announced a state of " +
                     std::to_string(byte_count) + " bytes");
  }
  std::string bytes = is_source ? mine : std::string(byte_count, '\0');
  LOCKSTEP_RETURN_IF_ERROR(communicator_->Broadcast(bytes.data(), byte_count, source, deadline));
  return bytes;
}

Result<bool> RankControl::ShareValues(std::span<float> values, int source, Deadline deadline) {
  const bool is_source = rank() == source;
  std::vector<float> piece(is_source ? 0 : std::min(values.size(), kPieceCount));
  bool differs = false;
  for (std::size_t begin = 0; begin < values.size(); begin += kPieceCount) {
    const std::span<float> mine =
        values.subspan(begin, std::min(values.size() - begin, kPieceCount));
    float* const data = is_source ? mine.data() : piece.data();
    LOCKSTEP_RETURN_IF_ERROR(communicator_->Broadcast(data, mine.size_bytes(), source, deadline));
    if (!is_source && std::memcmp(mine.data(), data, mine.size_bytes()) != 0) {
      std::memcpy(mine.data(), data, mine.size_bytes());
      differs = true;
    }
  }
  return differs;
}

}  // namespace lockstep::runtime
