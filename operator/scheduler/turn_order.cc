#include "operator/scheduler/turn_order.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "operator/scheduler/placement/placer.h"

namespace lockstep::control {
namespace {

// Whether autoscalers may yet make room for the gang; what they have refused to, they do not.
bool MayGetNodes(AskStage stage) {
  return stage != AskStage::kNever && stage != AskStage::kFailed;
}

// Whether the gang could start in its queue if only strangers held anything, or with nodes that it
// asks for.
bool MayStartOneDay(const ClusterState& state, const GangRecord& gang) {
  const QueueTree& queues = state.queues();
  const bool is_served = gang.queue.has_value() && gang.request.missing_class.empty() &&
                         state.WhyUnserved(gang.request.queue) == nullptr &&
                         queues.ChildrenOf(*gang.queue).empty() &&
                         !queues.ClosedTo(*gang.queue, gang.space).has_value();
  return is_served &&
         (queues.Allows(*gang.queue, gang.total) ||
          !queues.WhyNeverHeld(*gang.queue, gang.total).has_value()) &&
         (MayGetNodes(gang.request.asking.stage) || MayFitEmpty(state.nodes(), gang));
}

}  // namespace

TurnOrder::TurnOrder(const ClusterState& state)
    : state_(state), lines_(state.queues().size()), has_changed_(lines_.size(), true) {
  for (QueueIndex queue = 0; queue < lines_.size(); ++queue) {
    for (const GangRecord* const gang : state.waiting()[queue]) {
      LineOf(*gang).gangs.push_back(gang);
    }
    SortByPriority(queue);
  }
}

void TurnOrder::PutShortestFirst(const GangRecord& gang, WallTime now) {
  LineOf(gang).gangs.push_front(&gang);
  has_changed_[*gang.queue] = true;
  for (auto& [space, line] : lines_[*gang.queue]) {
    std::vector<std::pair<WallTime, const GangRecord*>> by_end;
    by_end.reserve(line.gangs.size());
    for (const GangRecord* const one : line.gangs) {
      by_end.emplace_back(ExpectedEndOf(one->request, now).value_or(WallTime::max()), one);
    }
    std::stable_sort(by_end.begin(), by_end.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    std::transform(by_end.begin(), by_end.end(), line.gangs.begin(), [](const auto& one) {
      return one.second;
    });
  }
  SortByPriority(*gang.queue);
}

// Those of no queue stand under kTopQueue.
TurnOrder::Line& TurnOrder::LineOf(const GangRecord& gang) {
  const QueueIndex queue = gang.queue.value_or(kTopQueue);
  const bool is_by_space =
      queue != kTopQueue && state_.queues().SpecOf(queue).ordering == QueueOrdering::kFairShare;
  return lines_[queue][is_by_space ? gang.space : ""];
}

void TurnOrder::SortByPriority(QueueIndex queue) {
  if (state_.queues().SpecOf(queue).ordering != QueueOrdering::kPriority) {
    return;
  }
  for (auto& [space, line] : lines_[queue]) {
    std::stable_sort(line.gangs.begin(), line.gangs.end(), [](const auto* a, const auto* b) {
      return a->request.priority > b->request.priority;
    });
  }
}

const GangRecord* TurnOrder::Next() {
  const GangRecord* next = nullptr;
  QueueIndex home = kTopQueue;
  if (!lines_[kTopQueue].empty()) {
    next = lines_[kTopQueue].begin()->second.gangs.front();  // of a queue that does not exist
  } else {
    // In a single line nobody stands for others, and its order is that of those set aside.
    std::size_t line_count = 0;
    for (auto lines = lines_.begin(); lines != lines_.end() && line_count < 2; ++lines) {
      line_count += lines->size();
    }
    has_rivals_ = line_count > 1;
    next = Peek(kTopQueue);
    if (!aside_.empty()) {
      next = aside_.front();
      aside_.pop_front();
      return next;
    }
    home = next == nullptr ? kTopQueue : *next->queue;
  }
  if (next == nullptr) {
    return nullptr;
  }
  const auto found = lines_[home].find(next->space);
  const auto line = found == lines_[home].end() ? lines_[home].begin() : found;
  line->second.gangs.pop_front();
  has_changed_[home] = true;
  if (line->second.gangs.empty()) {
    lines_[home].erase(line);
  }
  return next;
}

const GangRecord* TurnOrder::Better(const GangRecord* a,
                                    const GangRecord* b,
                                    QueueOrdering ordering) const {
  if (a == nullptr || b == nullptr) {
    return a == nullptr ? b : a;
  }
  if (ordering == QueueOrdering::kPriority && a->request.priority != b->request.priority) {
    return a->request.priority > b->request.priority ? a : b;
  }
  return IsOlder(*b, *a) ? b : a;
}

void TurnOrder::SetHopelessAside(QueueIndex queue) {
  for (auto entry = lines_[queue].begin(); entry != lines_[queue].end();) {
    Line& line = entry->second;
    while (!line.gangs.empty() && line.gangs.front() != line.may_start) {
      const GangRecord* const first = line.gangs.front();
      if (MayStartOneDay(state_, *first)) {
        line.may_start = first;
      } else {
        aside_.push_back(first);
        line.gangs.pop_front();
      }
    }
    entry = line.gangs.empty() ? lines_[queue].erase(entry) : std::next(entry);
  }
}

const GangRecord* TurnOrder::Peek(QueueIndex queue) {
  if (queue != kTopQueue && has_rivals_ && has_changed_[queue]) {
    SetHopelessAside(queue);
    has_changed_[queue] = false;
  }
  const QueueOrdering ordering = state_.queues().SpecOf(queue).ordering;
  if (ordering == QueueOrdering::kFairShare) {
    return PeekFair(queue);
  }
  const GangRecord* best = nullptr;
  for (const auto& [space, line] : lines_[queue]) {
    best = Better(best, line.gangs.front(), ordering);
  }
  for (const QueueIndex child : state_.queues().ChildrenOf(queue)) {
    best = Better(best, Peek(child), ordering);
  }
  return best;
}

const GangRecord* TurnOrder::PeekFair(QueueIndex queue) {
  const GangRecord* best = nullptr;
  std::optional<QueueTree::Share> least;
  const ResourceVector& all = state_.nodes().offered_in_all();
  const auto consider = [&](const GangRecord* gang, const QueueTree::Share& share) {
    if (gang != nullptr &&
        (!least || share < *least || (share == *least && IsOlder(*gang, *best)))) {
      best = gang;
      least = share;
    }
  };
  if (queue != kTopQueue) {
    for (const auto& [space, line] : lines_[queue]) {
      consider(line.gangs.front(), state_.queues().ShareOfSpace(queue, space, all));
    }
  }
  for (const QueueIndex child : state_.queues().ChildrenOf(queue)) {
    if (const GangRecord* const gang = Peek(child)) {
      consider(gang, state_.queues().ShareOf(child, all, gang->total));
    }
  }
  return best;
}

}  // namespace lockstep::control
