#include "trainer-runtime/cmd/ps_decisions.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/contract/status/exit_code.h"

namespace lockstep::runtime {

std::vector<ShardView> ViewsOf(const std::vector<Incarnation>& incarnations) {
  const std::size_t count = incarnations.size();
  std::vector<ShardView> views(count);
  for (std::size_t shard = 0; shard < count; ++shard) {
    const Incarnation home = incarnations[shard];
    const Incarnation buddy = count > 1 ? incarnations[(shard + 1) % count] : Incarnation();
    views[shard] = {Term(home.value() + buddy.value()), {home, buddy}};
  }
  return views;
}

bool IsFilled(const std::vector<CopyStanding>& standings) {
  return !standings.empty() &&
         std::all_of(standings.begin(), standings.end(), [](const CopyStanding& one) {
           return one.role == CopyRole::kServing || one.role == CopyRole::kFollowing;
         });
}

std::optional<Ending> EndOfPs(const std::vector<CopyStanding>& standings) {
  const auto is_in = [&](CopyRole role) {
    return [role](const CopyStanding& one) { return one.role == role; };
  };
  if (standings.empty()) {
    return std::nullopt;
  }
  if (std::all_of(standings.begin(), standings.end(), is_in(CopyRole::kSuperseded))) {
    return Ending{EndingKind::kFailed, kExitSuperseded, "this ps was replaced by a newer process"};
  }
  const auto lost = std::find_if(standings.begin(), standings.end(), is_in(CopyRole::kLost));
  if (lost != standings.end()) {
    return Ending{
        EndingKind::kFailed,
        kExitRetryable,
        "shard " + std::to_string(lost->shard) + " is lost: no remaining process has its values"};
  }
  return std::nullopt;
}

}  // namespace lockstep::runtime
