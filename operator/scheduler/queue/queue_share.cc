// Who has had how much of the cluster, to order queues and namespaces by.

#include <algorithm>
#include <limits>

#include "operator/scheduler/queue/queue_tree.h"

namespace lockstep::control {
namespace {

constexpr int64_t kMillion = 1'000'000;

// Millionths that `part` is of `whole`; without a product that could overflow.
int64_t Millionths(int64_t part, int64_t whole) {
  if (whole <= 0 || part <= 0) {
    return 0;
  }
  return whole >= kMillion ? part / (whole / kMillion) : MultiplySaturated(part, kMillion) / whole;
}

// The same of a part in thousandths.
int64_t MillionthsOfThousandths(int64_t part, int64_t whole) {
  constexpr int64_t kThousand = 1000;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (part <= 0) {
    return 0;
  }
  if (whole <= 0 || whole > kMax / kThousand) {
    return Millionths(part / kThousand, whole);
  }
  return std::min(part, kMax / kMillion) * kMillion / (whole * kThousand);
}

// Of what was held of late, in thousandths, that which was over the nominal amount.
int64_t PastOverNominal(int64_t past, int64_t nominal) {
  constexpr int64_t kThousand = 1000;
  return nominal >= past / kThousand + 1 ? 0 : past - nominal * kThousand;
}

}  // namespace

int64_t QueueTree::PastUseOf(QueueIndex queue, const std::string& resource) const {
  const auto past = past_use_.empty() ? past_use_.end() : past_use_.find(nodes_[queue].spec.name);
  if (past == past_use_.end()) {
    return 0;
  }
  const auto found = past->second.find(resource);
  return found == past->second.end() ? 0 : found->second;
}

QueueTree::Share QueueTree::ShareOf(QueueIndex queue,
                                    const ResourceVector& all,
                                    const ResourceVector& more) const {
  const Node& node = nodes_[queue];
  Share share;
  for (const NamedAmount& offered : all.All()) {
    const int64_t held = node.held.AmountOf(offered.name);
    const int64_t past = PastUseOf(queue, offered.name);
    share.held = std::max(share.held,
                          AddSaturated(Millionths(held, offered.amount),
                                       MillionthsOfThousandths(past, offered.amount)));
    const auto found = std::find(resources_.begin(), resources_.end(), offered.name);
    if (found == resources_.end()) {
      continue;
    }
    const Limit& limit = node.limits[static_cast<std::size_t>(found - resources_.begin())];
    const int64_t over =
        SubtractSaturated(AddSaturated(held, more.AmountOf(offered.name)), limit.nominal);
    const int64_t past_over = over > 0 ? PastOverNominal(past, limit.nominal) : 0;
    share.over = std::max(share.over,
                          AddSaturated(Millionths(over, offered.amount),
                                       MillionthsOfThousandths(past_over, offered.amount)));
  }
  share.over = MultiplySaturated(share.over, 1000) / node.spec.weight;
  share.held = MultiplySaturated(share.held, 1000) / node.spec.weight;
  return share;
}

QueueTree::Share QueueTree::ShareOfSpace(QueueIndex queue,
                                         const std::string& space,
                                         const ResourceVector& all,
                                         const ResourceVector& more) const {
  const auto& spaces = nodes_[queue].held_by_space;
  const auto found = spaces.find(space);
  const ResourceVector held = found == spaces.end() ? more : Sum(found->second, more);
  Share share;
  for (const NamedAmount& offered : all.All()) {
    share.held = std::max(share.held, Millionths(held.AmountOf(offered.name), offered.amount));
  }
  return share;
}

}  // namespace lockstep::control
