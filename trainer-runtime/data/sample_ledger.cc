#include "trainer-runtime/data/sample_ledger.h"

#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

constexpr std::string_view kMagic = "LSLEDGR1";
constexpr std::size_t kHeaderBytes = kMagic.size() + 5 * sizeof(int64_t);

template <typename Number>
void AppendLittleEndian(std::string* bytes, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bytes->push_back(static_cast<char>(static_cast<uint64_t>(number) >> (8 * i) & 0xff));
  }
}

// Takes one number off the front. Precondition: enough bytes.
template <typename Number>
Number TakeLittleEndian(std::string_view* bytes) {
  uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number |= uint64_t{static_cast<unsigned char>((*bytes)[i])} << (8 * i);
  }
  bytes->remove_prefix(sizeof(Number));
  return static_cast<Number>(number);
}

Error Corrupt(const std::string& what) {
  return Error(ErrorCode::kCorrupt, "sample ledger: " + what);
}

}  // namespace

SampleLedger::SampleLedger(int64_t sample_count) {
  LOCKSTEP_CHECK(sample_count >= 0, "sample_count is " + std::to_string(sample_count));
  uses_.resize(static_cast<std::size_t>(sample_count));
}

Status SampleLedger::Add(std::span<const int64_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string problem;
    if (ids[i] < 0 || ids[i] >= sample_count()) {
      problem = "sample " + std::to_string(ids[i]) + " found, expected 0 to " +
                std::to_string(sample_count() - 1);
    } else if (uses_[static_cast<std::size_t>(ids[i])] == std::numeric_limits<uint16_t>::max()) {
      problem = "sample " + std::to_string(ids[i]) + " is used too often to count";
    } else {
      ++uses_[static_cast<std::size_t>(ids[i])];
      continue;
    }
    for (std::size_t counted = 0; counted < i; ++counted) {
      --uses_[static_cast<std::size_t>(ids[counted])];
    }
    return Corrupt(problem);
  }
  totals_.consumed += static_cast<int64_t>(ids.size());
  return OkStatus();
}

SampleTotals SampleLedger::TotalsIfClosed(std::span<const int64_t> expected) const {
  std::vector<uint16_t> wanted(uses_.size());
  for (const int64_t id : expected) {
    LOCKSTEP_CHECK(id >= 0 && id < sample_count(), "there is no sample " + std::to_string(id));
    ++wanted[static_cast<std::size_t>(id)];
  }
  SampleTotals totals = totals_;
  totals.expected += static_cast<int64_t>(expected.size());
  for (std::size_t id = 0; id < uses_.size(); ++id) {
    const int64_t surplus = int64_t{uses_[id]} - int64_t{wanted[id]};
    (surplus < 0 ? totals.lost : totals.repeated) += surplus < 0 ? -surplus : surplus;
  }
  return totals;
}

int64_t SampleLedger::open_count() const {
  return std::accumulate(uses_.begin(), uses_.end(), int64_t{0});
}

void SampleLedger::CloseEpoch(std::span<const int64_t> expected) {
  totals_ = TotalsIfClosed(expected);
  uses_.assign(uses_.size(), 0);
}

std::string SampleLedger::Serialize() const {
  std::string bytes(kMagic);
  bytes.reserve(kHeaderBytes + uses_.size() * sizeof(uint16_t));
  for (const int64_t number :
       {sample_count(), totals_.consumed, totals_.expected, totals_.lost, totals_.repeated}) {
    AppendLittleEndian(&bytes, number);
  }
  for (const uint16_t count : uses_) {
    AppendLittleEndian(&bytes, count);
  }
  return bytes;
}

Result<SampleLedger> SampleLedger::Deserialize(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kHeaderBytes) {
    return Corrupt(std::to_string(bytes.size()) +
                   " bytes found, expected bytes that begin with a header");
  }
  bytes.remove_prefix(kMagic.size());
  const auto sample_count = TakeLittleEndian<int64_t>(&bytes);
  SampleTotals totals;
  for (int64_t* total : {&totals.consumed, &totals.expected, &totals.lost, &totals.repeated}) {
    *total = TakeLittleEndian<int64_t>(&bytes);
    if (*total < 0) {
      return Corrupt("negative total " + std::to_string(*total));
    }
  }
  // Compared before anything is allocated: the count comes from outside.
  if (sample_count < 0 || bytes.size() % sizeof(uint16_t) != 0 ||
      static_cast<uint64_t>(sample_count) != bytes.size() / sizeof(uint16_t)) {
    return Corrupt(std::to_string(bytes.size()) +
                   " bytes of counters found, expected 2 for each of " +
                   std::to_string(sample_count) + " samples");
  }
  SampleLedger ledger(sample_count);
  ledger.totals_ = totals;
  for (uint16_t& count : ledger.uses_) {
    count = TakeLittleEndian<uint16_t>(&bytes);
  }
  return ledger;
}

}  // namespace lockstep::runtime
