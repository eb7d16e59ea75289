#include "trainer-runtime/strategy/state_exchange.h"

#include <algorithm>
#include <cstring>
#include <stop_token>
#include <string>
#include <thread>

#include "trainer-runtime/collectives/shared_memory/shared_segment.h"
#include "trainer-runtime/strategy/state_digest.h"

namespace lockstep::runtime {
namespace {

// Has the pages of what is about to be read mapped by a core that has nothing else to do. Whoever
// reads faster than that maps them itself.
class PagesAhead {
 public:
  // `sources` must outlive this object.
  explicit PagesAhead(const std::vector<std::span<const float>>& sources)
      : thread_([&sources](const std::stop_token& stop) {
          // Choice: mapped in a millisecond, which is as long as an end is waited for.
          constexpr std::size_t kPart = std::size_t{4} << 20U;  // values
          for (const std::span<const float> source : sources) {
            for (std::size_t done = 0; done < source.size(); done += kPart) {
              if (stop.stop_requested()) {
                return;
              }
              const std::size_t count = std::min(kPart, source.size() - done);
              MapPagesToRead(source.data() + done, count * sizeof(float));
            }
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

// A rank that reads the source's memory reads it in the same passes in which others make digests of
// their own, and no core reads anything twice:
//
//   source          at rest: nobody writes until all are through
//   has kNone       copies from the source's memory, digests on the way
//   has kMaybeSame  digests
//   has kOthers     nothing
Status StateExchange::Compare(std::span<const StateValues> tensors, HeldValues held) {
  const bool is_source = control_->rank() == source_;
  const bool may_be_same = !is_source && held == HeldValues::kMaybeSame;
  const bool reads = !is_source && held == HeldValues::kNone && CanRead(tensors);
  holds_.assign(tensors.size(), is_source);
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t candidate_count,
                            control_->CountRanks(may_be_same, deadline_));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<int> first_reader,
                            control_->LowestRank(reads, deadline_));
  const int teller = first_reader.value_or(source_);
  Digests mine(tensors.size());
  if (reads) {
    LOCKSTEP_ASSIGN_OR_RETURN(mine, Read(tensors));
  } else if (may_be_same || (control_->rank() == teller && candidate_count > 0)) {
    std::ranges::transform(tensors, mine.begin(), DigestOf);
  }
  if (first_reader.has_value()) {
    // Then the digests go round, and what was read counts as LentBy says.
    LOCKSTEP_RETURN_IF_ERROR(control_->Barrier(deadline_));
  }
  if (candidate_count > 0 || first_reader.has_value()) {
    LOCKSTEP_RETURN_IF_ERROR(CompareDigests(mine, teller, held));
  }
  const bool had_all = HoldsAll() && !reads;
  LOCKSTEP_ASSIGN_OR_RETURN(holder_count_, control_->CountRanks(had_all, deadline_));
  return OkStatus();
}

bool StateExchange::CanRead(std::span<const StateValues> tensors) const {
  return std::ranges::all_of(tensors, [this](const StateValues& tensor) {
    return tensor.empty() || control_->LentBy(source_, tensor) != nullptr;
  });
}

// Precondition: all ranks have agreed on it.
Result<StateExchange::Digests> StateExchange::Read(std::span<const StateValues> tensors) {
  // Choice: read in half a millisecond, which is as late as a loss is heard of.
  constexpr std::size_t kPart = std::size_t{1} << 20U;  // values
  static_assert(kPart % StateDigest::kPartUnit == 0);

  std::vector<std::span<const float>> sources;
  for (const StateValues& tensor : tensors) {
    sources.emplace_back(control_->LentBy(source_, tensor), tensor.size());
  }
  const PagesAhead ahead(sources);
  Digests digests;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    StateDigest digest;
    for (std::size_t done = 0; done < sources[i].size(); done += kPart) {
      LOCKSTEP_RETURN_IF_ERROR(control_->CheckHealth());
      if (deadline_.HasPassed(SteadyNow())) {
        return Error(ErrorCode::kTimeout,
                     "deadline passed while reading the state of rank " + std::to_string(source_));
      }
      has_begun_ = true;
      const std::size_t count = std::min(kPart, sources[i].size() - done);
      digest.AddCopied(sources[i].subspan(done, count), tensors[i].data() + done);
    }
    digests.push_back(digest.value());
  }
  return digests;
}

// `teller` has digests of what the source has.
Status StateExchange::CompareDigests(const Digests& mine, int teller, HeldValues held) {
  std::string bytes(mine.size() * sizeof(uint64_t), '\0');
  std::memcpy(bytes.data(), mine.data(), bytes.size());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string sources,
                            control_->ShareBytes(bytes, teller, deadline_));
  const bool has_digests = held == HeldValues::kMaybeSame || has_begun_;
  for (std::size_t i = 0; i < mine.size() && has_digests && control_->rank() != source_; ++i) {
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
    has_begun_ = has_begun_ || !holds_[i];
    LOCKSTEP_RETURN_IF_ERROR(control_->FillValues(tensors[i], source_, holds_[i], deadline_));
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
