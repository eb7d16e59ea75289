#pragma once

#include <optional>
#include <vector>

#include "common/base/strong_id.h"
#include "trainer-runtime/ps/ps_server.h"
#include "trainer-runtime/train/ending.h"

namespace lockstep::runtime {

// Who stands for the shards' places, where ps i is the `incarnations[i]`-th process of its place.
// Terms grow with every successor, and equal ones are equal views: successors are named one after
// the other.
std::vector<ShardView> ViewsOf(const std::vector<Incarnation>& incarnations);

// Whether each copy holds what it stands for.
bool IsFilled(const std::vector<CopyStanding>& standings);

// The end of a ps by how its copies stand; null while it goes on.
std::optional<Ending> EndOfPs(const std::vector<CopyStanding>& standings);

}  // namespace lockstep::runtime
