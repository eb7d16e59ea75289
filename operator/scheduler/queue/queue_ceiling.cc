// What queues keep from each other, and what they could hold at most, whoever holds something now.

#include <algorithm>

#include "operator/scheduler/queue/amount_text.h"
#include "operator/scheduler/queue/queue_tree.h"

namespace lockstep::control {

// Of the queue's nominal amount what is not held by those below it within theirs, where one of them
// holds so much more.
int64_t QueueTree::UnusedOf(QueueIndex queue, std::size_t resource, const More& more) const {
  int64_t unused = nodes_[queue].limits[resource].nominal;
  for (const QueueIndex child : nodes_[queue].children) {
    const Limit& limit = nodes_[child].limits[resource];
    const int64_t held = AddSaturated(limit.held, child == more.queue ? more.amount : 0);
    unused = SubtractSaturated(unused, std::min(held, limit.nominal));
  }
  return std::max<int64_t>(0, unused);
}

// What the queue, or those below it, keep for themselves though they do not use it; all that they
// ever keep, where they hold nothing.
int64_t QueueTree::Kept(QueueIndex queue, std::size_t resource, bool is_idle) const {
  const Node& node = nodes_[queue];
  const Limit& limit = node.limits[resource];
  if (!limit.keeps) {
    return 0;
  }
  int64_t below = 0;
  for (const QueueIndex child : node.children) {
    below = AddSaturated(below, Kept(child, resource, is_idle));
  }
  const int64_t unused = is_idle || below == 0 ? limit.nominal : UnusedOf(queue, resource, {});
  const int64_t own = SubtractSaturated(limit.nominal - limit.lending, is_idle ? 0 : limit.held);
  return std::max({int64_t{0}, own, std::min(below, unused)});
}

int64_t QueueTree::KeptBeside(QueueIndex queue, std::size_t resource, bool is_idle) const {
  int64_t kept = 0;
  for (const QueueIndex beside : nodes_[nodes_[queue].parent].children) {
    kept = AddSaturated(kept, beside == queue ? 0 : Kept(beside, resource, is_idle));
  }
  return kept;
}

// Of what it shares with the queues beside it, which keep what they do not lend, from those above
// as well.
int64_t QueueTree::SharedMax(QueueIndex queue, std::size_t resource) const {
  const QueueIndex above = nodes_[queue].parent;
  const Limit& limit = nodes_[above].limits[resource];
  const int64_t kept = KeptBeside(queue, resource, true);
  int64_t most = SubtractSaturated(limit.nominal + limit.borrowing, kept);
  const int64_t kept_from_above =
      std::min(kept, limit.nominal - nodes_[queue].limits[resource].nominal);
  if (above != kTopQueue && kept_from_above > 0) {
    most = std::min(most, SharedMax(above, resource) - kept_from_above);
  }
  return std::max<int64_t>(0, most);
}

// Empty where the queue itself, without those above it, could hold so much.
std::string QueueTree::NeverText(QueueIndex queue, std::size_t resource, int64_t amount) const {
  const std::string& name = resources_[resource];
  const Limit& limit = nodes_[queue].limits[resource];
  const int64_t own = limit.nominal + limit.borrowing;
  const int64_t shared = SharedMax(queue, resource);
  const int64_t most = std::min(own, shared);
  if (amount <= most) {
    return "";
  }
  const Figures figures = FiguresOf(name, amount, most);
  std::string why;
  if (own <= shared) {
    why = limit.borrowing == 0 ? "may borrow none"
                               : "may borrow " + AmountText(name, limit.borrowing);
  } else if (shared < limit.nominal) {
    why = "but its parent queue " + nodes_[nodes_[queue].parent].spec.name + " allows it less";
  } else {
    why = shared == limit.nominal ? "other queues lend none"
                                  : "other queues lend " + AmountText(name, shared - limit.nominal);
  }
  return "needs " + figures.needed + ", but queue " + nodes_[queue].spec.name +
         " can never use more than " + figures.found + " (nominal " +
         FiguresOf(name, amount, limit.nominal).found + ", " + why + ")";
}

std::optional<std::string> QueueTree::WhyNeverHeld(QueueIndex queue,
                                                   const ResourceVector& amounts) const {
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const int64_t amount = amounts.AmountOf(resources_[r]);
    if (amount <= 0 || !nodes_[queue].limits[r].is_set) {
      continue;
    }
    for (QueueIndex one = queue; one != kTopQueue; one = nodes_[one].parent) {
      if (std::string text = NeverText(one, r, amount); !text.empty()) {
        return text;
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::control
