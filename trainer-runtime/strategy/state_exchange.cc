#include "trainer-runtime/strategy/state_exchange.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "trainer-runtime/strategy/state_digest.h"

namespace lockstep::runtime {

Status StateExchange::Compare(std::span<const StateValues> tensors, bool may_be_equal) {
  const bool is_source = control_->rank() == source_;
  holds_.assign(tensors.size(), is_source);
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t candidate_count,
                            control_->CountRanks(may_be_equal && !is_source, deadline_));
  if (candidate_count > 0) {
    LOCKSTEP_RETURN_IF_ERROR(CompareDigests(tensors, may_be_equal));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(holder_count_, control_->CountRanks(HoldsAll(), deadline_));
  return OkStatus();
}

Status StateExchange::CompareDigests(std::span<const StateValues> tensors, bool may_be_equal) {
  const bool is_source = control_->rank() == source_;
  std::vector<uint64_t> digests(tensors.size());
  if (is_source || may_be_equal) {
    std::ranges::transform(tensors, digests.begin(), DigestOf);
  }
  std::string bytes(digests.size() * sizeof(uint64_t), '\0');
  std::memcpy(bytes.data(), digests.data(), bytes.size());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string sources,
                            control_->ShareBytes(bytes, source_, deadline_));
  for (std::size_t i = 0; i < tensors.size() && may_be_equal && !is_source; ++i) {
    const std::size_t at = i * sizeof(uint64_t);
    holds_[i] = sources.compare(at, sizeof(uint64_t), bytes, at, sizeof(uint64_t)) == 0;
  }
  return OkStatus();
}

bool StateExchange::HoldsAll() const {
  return std::ranges::all_of(holds_, [](bool holds) { return holds; });
}

Status StateExchange::Fill(std::span<const StateValues> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(control_->FillValues(tensors[i], source_, holds_[i], deadline_));
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
