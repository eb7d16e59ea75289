#include "trainer-runtime/strategy/parameter_server/shard_content.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

bool HasSlotsFor(const std::vector<float>& parameters,
                 const std::vector<float>& slots,
                 std::optional<int64_t> slot_count) {
  return !slot_count.has_value() ||
         slots.size() == parameters.size() * static_cast<std::size_t>(*slot_count);
}

}  // namespace

bool ShardContent::Fits(const ShardEntry& entry, std::optional<int64_t> slot_count) const {
  if (const auto* seed = std::get_if<entry::Seed>(&entry)) {
    return seed->parameters != nullptr && seed->slots != nullptr &&
           HasSlotsFor(*seed->parameters, *seed->slots, slot_count);
  }
  if (const auto* push = std::get_if<entry::Push>(&entry)) {
    return is_seeded && push->gradient != nullptr && push->gradient->size() == parameters.size() &&
           Judge(push->process, push->sequence) == PushStanding::kNext;
  }
  return true;
}

bool ShardContent::IsWhole(std::optional<int64_t> slot_count) const {
  return !is_seeded || HasSlotsFor(parameters, slots, slot_count);
}

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
  gate = seed.gate;
  note = seed.note;
}

void ShardContent::Take(const entry::Open& open, const UpdateRule& /*rule*/) {
  gate = std::max(gate, open.gate);
}

void ShardContent::Take(const entry::Admit& admit, const UpdateRule& /*rule*/) {
  if (IsOutdated(admit.process) || Knows(admit.process)) {
    return;
  }
  WorkerStanding& standing = workers[admit.process.worker];
  standing.is_present = false;  // its predecessor is no longer waited for
  standing = {
      admit.process.incarnation, true, standing.sequence, SlowestClock().value_or(standing.clock)};
}

void ShardContent::Take(const entry::Push& push, const UpdateRule& rule) {
  LOCKSTEP_CHECK(is_seeded, "a push came before the first values");
  LOCKSTEP_CHECK(Judge(push.process, push.sequence) == PushStanding::kNext,
                 "a push came out of order: push " + std::to_string(push.sequence) + " of worker " +
                     std::to_string(push.process.worker));
  LOCKSTEP_CHECK(push.gradient->size() == parameters.size(),
                 std::to_string(push.gradient->size()) + " gradients");
  rule(update_count + 1, *push.gradient, &parameters, &slots);
  ++update_count;
  WorkerStanding& standing = workers[push.process.worker];
  ++standing.sequence;
  ++standing.clock;
  sample_count += push.sums.sample_count;
  StepSums& all = sums[push.sums.data_epoch];
  all.data_epoch = push.sums.data_epoch;
  all.loss_sum += push.sums.loss_sum;
  all.correct_count += push.sums.correct_count;
  all.sample_count += push.sums.sample_count;
  if (sums.size() > kSummedDataEpochs) {
    sums.erase(sums.begin());
  }
}

void ShardContent::Take(const entry::Retire& retire, const UpdateRule& /*rule*/) {
  WorkerStanding& standing = workers[retire.worker];
  if (standing.incarnation < retire.below) {
    standing.incarnation = retire.below;
    standing.is_present = false;
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
  const auto found = workers.find(process.worker);
  const int64_t last = found == workers.end() ? 0 : found->second.sequence;
  if (sequence <= last) {
    return PushStanding::kDone;
  }
  return sequence == last + 1 ? PushStanding::kNext : PushStanding::kTooEarly;
}

std::optional<int64_t> ShardContent::SlowestClock(const std::set<int>& resting) const {
  std::optional<int64_t> slowest;
  for (const auto& [worker, standing] : workers) {
    if (standing.is_present && !resting.contains(worker)) {
      slowest = std::min(slowest.value_or(standing.clock), standing.clock);
    }
  }
  return slowest;
}

bool ShardContent::MayBegin(int worker, int64_t max_staleness, const std::set<int>& resting) const {
  const auto found = workers.find(worker);
  LOCKSTEP_CHECK(found != workers.end() && found->second.is_present,
                 "worker " + std::to_string(worker) + " does not take part");
  const int64_t own = found->second.clock;
  return own - SlowestClock(resting).value_or(own) <= max_staleness;
}

}  // namespace lockstep::runtime
