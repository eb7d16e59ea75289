// What queues could hold at most, whoever holds something now.

#include <algorithm>

#include "operator/scheduler/amount_text.h"
#include "operator/scheduler/queue_tree.h"

namespace lockstep::control {

// Of what it shares with the queues beside it, which keep what they do not lend.
int64_t QueueTree::SharedMax(QueueIndex queue, std::size_t resource) const {
  const Node& parent = nodes_[nodes_[queue].parent];
  int64_t most = parent.limits[resource].nominal + parent.limits[resource].borrowing;
  for (const QueueIndex beside : parent.children) {
    const Limit& limit = nodes_[beside].limits[resource];
    most -= beside == queue ? 0 : std::max<int64_t>(0, limit.nominal - limit.lending);
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
    why = "more than queue " + nodes_[nodes_[queue].parent].spec.name + " above it has for it";
  } else {
    why = shared == limit.nominal ? "others lend none"
                                  : "others lend " + AmountText(name, shared - limit.nominal);
  }
  return "needs " + figures.needed + ", and queue " + nodes_[queue].spec.name +
         " never holds more than " + figures.found + " (nominal " +
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
