#include "trainer-runtime/strategy/parameter_server/shard_content.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace lockstep::runtime {

void ShardContent::Take(const ShardEntry& entry, const UpdateRule& rule) {
  std::visit([&](const auto& one) { Take(one, rule); }, entry);
  ++entry_count;
}

void ShardContent::Take(const entry::Seed& seed, const UpdateRule& /*rule*/) {
  if (is_seeded) {
    return;
  }
  is_seeded = true;
  update_count = seed.update_count;
  parameters = *seed.parameters;
  slots = *seed.slots;
}

void ShardContent::Take(const entry::Admit& admit, const UpdateRule& /*rule*/) {
  if (IsOutdated(admit.process) || Knows(admit.process)) {
    return;
  }
  WorkerStanding& standing = workers[admit.process.worker];
  standing.is_present = false;  // its predecessor is no longer waited for
  standing = {admit.process.incarnation, true, 0, SlowestClock().value_or(standing.clock)};
}

void ShardContent::Take(const entry::Push& push, const UpdateRule& rule) {
  LOCKSTEP_CHECK(is_seeded, "a push before the seed");
  LOCKSTEP_CHECK(Judge(push.process, push.sequence) == PushStanding::kNext,
                 "push " + std::to_string(push.sequence) + " of worker " +
                     std::to_string(push.process.worker));
  LOCKSTEP_CHECK(push.gradient->size() == parameters.size(),
                 std::to_string(push.gradient->size()) + " gradients");
  rule(update_count + 1, *push.gradient, &parameters, &slots);
  ++update_count;
  WorkerStanding& standing = workers[push.process.worker];
  ++standing.sequence;
  ++standing.clock;
}

void ShardContent::Take(const entry::Retire& retire, const UpdateRule& /*rule*/) {
  WorkerStanding& standing = workers[retire.worker];
  if (standing.incarnation < retire.below) {
    standing.incarnation = retire.below;
    standing.is_present = false;
    standing.sequence = 0;
  }
}

bool ShardContent::Knows(const WorkerProcess& process) const {
  const auto found = workers.find(process.worker);
  return found != workers.end() && found->second.is_present &&
         found->second.incarnation == process.incarnation;
}

bool ShardContent::IsOutdated(const WorkerProcess& process) const {
  const auto found = workers.find(process.worker);
  return found != workers.end() && process.incarnation < found->second.incarnation;
}

PushStanding ShardContent::Judge(const WorkerProcess& process, int64_t sequence) const {
  if (IsOutdated(process)) {
    return PushStanding::kOutdated;
  }
  const int64_t last = Knows(process) ? workers.at(process.worker).sequence : 0;
  if (sequence <= last) {
    return PushStanding::kDone;
  }
  return sequence == last + 1 ? PushStanding::kNext : PushStanding::kTooEarly;
}

std::optional<int64_t> ShardContent::SlowestClock() const {
  std::optional<int64_t> slowest;
  for (const auto& [worker, standing] : workers) {
    if (standing.is_present) {
      slowest = std::min(slowest.value_or(standing.clock), standing.clock);
    }
  }
  return slowest;
}

bool ShardContent::MayBegin(int worker, int64_t max_staleness) const {
  const auto found = workers.find(worker);
  LOCKSTEP_CHECK(found != workers.end() && found->second.is_present,
                 "worker " + std::to_string(worker) + " takes no part");
  return found->second.clock - *SlowestClock() <= max_staleness;
}

}  // namespace lockstep::runtime
