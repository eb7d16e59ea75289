#include "operator/reconcile/detect/first_end.h"

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

}  // namespace

std::vector<std::size_t> FirstEnds(const std::vector<ProgramEnd>& ends, Duration doubt) {
  LOCKSTEP_CHECK(!ends.empty(), "the first of no ends");
  const std::optional<std::size_t> earliest =
      EarliestOf(ends, [](const ProgramEnd&) { return true; });
  const std::optional<std::size_t> killed =
      EarliestOf(ends, [](const ProgramEnd& end) { return end.cause == ExitCause::kKilled; });
  if (killed.has_value() && *ends[*killed].at <= *ends[*earliest].at + kKilledDoubt) {
    return {*killed};
  }
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i].at || *ends[i].at <= *ends[*earliest].at + doubt) {
      first.push_back(i);
    }
  }
  return first;
}

}  // namespace lockstep::control
