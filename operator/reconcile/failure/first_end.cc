#include "operator/reconcile/failure/first_end.h"

#include <algorithm>

#include "common/base/check.h"

namespace lockstep::control {
namespace {

// The earliest of those that `counts` says, as far as they say when.
template <typename Counts>
std::optional<std::size_t> EarliestOf(const std::vector<ProgramEnd>& ends, const Counts& counts) {
  std::optional<std::size_t> earliest;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (counts(ends[i]) && ends[i].at && (!earliest || *ends[i].at < *ends[*earliest].at)) {
      earliest = i;
    }
  }
  return earliest;
}

// The killed ones from `earliest` on, by `doubt` or less after it.
FirstEnded KilledWith(std::size_t earliest, const std::vector<ProgramEnd>& ends, Duration doubt) {
  FirstEnded killed;
  Duration apart{};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool is_among = ends[i].cause == ExitCause::kKilled && ends[i].at &&
                          *ends[i].at <= *ends[earliest].at + doubt;
    if (is_among) {
      killed.indexes.push_back(i);
      apart = std::max(apart, *ends[i].at - *ends[earliest].at);
    }
  }
  if (killed.indexes.size() > 1) {
    killed.all_within = apart;
  }
  return killed;
}

}  // namespace

FirstEnded FirstEnds(const std::vector<ProgramEnd>& ends, Duration doubt) {
  LOCKSTEP_CHECK(!ends.empty(), "no program has ended, so none has ended first");
  const std::optional<std::size_t> earliest =
      EarliestOf(ends, [](const ProgramEnd&) { return true; });
  const std::optional<std::size_t> killed =
      EarliestOf(ends, [](const ProgramEnd& end) { return end.cause == ExitCause::kKilled; });
  if (killed.has_value() && *ends[*killed].at <= *ends[*earliest].at + kKilledDoubt) {
    return KilledWith(*killed, ends, doubt);
  }
  FirstEnded first;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i].at || *ends[i].at <= *ends[*earliest].at + doubt) {
      first.indexes.push_back(i);
    }
  }
  return first;
}

}  // namespace lockstep::control
