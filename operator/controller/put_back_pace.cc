#include "operator/controller/put_back_pace.h"

#include <algorithm>

namespace lockstep::control {
namespace {

// Choice: a slip of the hand is mended at once; who insists costs a write in five minutes.
constexpr Duration kDelayMin = std::chrono::seconds(1);
constexpr Duration kDelayMax = std::chrono::minutes(5);

// Choice: longer than any pause above, so that one who insists never begins anew.
constexpr Duration kForgottenAfter = std::chrono::minutes(10);

Duration DelayAfter(int64_t count) {
  Duration delay = kDelayMin;
  for (int64_t i = 1; i < count && delay < kDelayMax; ++i) {
    delay *= 2;
  }
  return std::min(delay, kDelayMax);
}

}  // namespace

std::optional<TimePoint> PutBackPace::NotBefore(const JobId& key, TimePoint now) const {
  const auto row = jobs_.find(key);
  if (row == jobs_.end()) {
    return std::nullopt;
  }
  const TimePoint when = row->second.last + DelayAfter(row->second.count);
  return when <= now ? std::nullopt : std::optional(when);
}

bool PutBackPace::Note(const JobId& key, TimePoint now) {
  Row& row = jobs_[key];
  if (row.last + kForgottenAfter <= now) {
    row.count = 0;
  }
  row.last = now;
  return ++row.count == 1;
}

}  // namespace lockstep::control
