#include "operator/scheduler/explanations.h"

#include <algorithm>
#include <utility>

#include "operator/scheduler/ask_turn.h"
#include "operator/scheduler/placement/placer.h"
#include "operator/scheduler/why.h"

namespace lockstep::control {
namespace {

Obstacle ObstacleOf(Constraint constraint) {
  return constraint == Constraint::kPriorityClass ? Obstacle::kPriorityClass
         : constraint == Constraint::kNamespace   ? Obstacle::kNamespace
         : constraint == Constraint::kQueue       ? Obstacle::kTurn
         : constraint == Constraint::kQuota       ? Obstacle::kQuota
                                                  : Obstacle::kRoom;
}

// As far as what was told says it.
Obstacle ObstacleOf(const Wait& wait) {
  return wait.obstacle == Obstacle::kQueueName ? Obstacle::kQuota : wait.obstacle;
}

void ChooseOldest(std::vector<const Wait*> waits,
                  std::size_t count_max,
                  std::set<const Wait*>* chosen,
                  RoundResult* result) {
  std::stable_sort(waits.begin(), waits.end(), [](const Wait* a, const Wait* b) {
    return a->gang->told_at < b->gang->told_at;
  });
  const std::size_t count = std::min(waits.size(), count_max);
  chosen->insert(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(count));
  result->outdated_count += waits.size() - count;
}

}  // namespace

std::optional<Wait> ProblemOfQueue(const ClusterState& state, const GangRecord& gang) {
  const std::string& name = gang.request.queue;
  const auto say = [&](Obstacle obstacle, const std::string& what) {
    return Wait{
        &gang, obstacle, "queue " + (name.empty() ? std::string(kDefaultQueue) : name) + what};
  };
  if (const std::string* const why = state.WhyUnserved(name)) {
    return say(Obstacle::kQueueName, " is not served: " + *why);
  }
  if (!gang.queue) {
    return say(Obstacle::kQueueName, " does not exist");
  }
  if (!state.queues().ChildrenOf(*gang.queue).empty()) {
    return say(Obstacle::kQueueName, " has queues below it: name one of those queues");
  }
  if (const auto closed = state.queues().ClosedTo(*gang.queue, gang.space)) {
    return say(Obstacle::kNamespace, *closed);
  }
  return std::nullopt;
}

bool Asks(const GangRequest& request) {
  return request.asking.stage != AskStage::kNever;
}

void LookAgainAt(std::optional<WallTime> when, RoundResult* result) {
  if (when) {
    result->look_again_at = std::min(result->look_again_at.value_or(*when), *when);
  }
}

void Explanations::Explain(const std::vector<Wait>& waits, uint64_t news, RoundResult* result) {
  FindWhoMayNotAsk(waits);
  std::vector<const Wait*> changed;
  std::vector<const Wait*> stale;
  std::set<const Wait*> chosen;
  for (const Wait& wait : waits) {
    const auto& told = wait.gang->told;
    if (!told || wait.gang->request.name == options_.asked) {
      chosen.insert(&wait);
    } else if (wait.is_left_out) {
      continue;  // what it was told stands until then
    } else if (ObstacleOf(told->constraint) != ObstacleOf(wait) ||
               told->not_asked.empty() == may_not_ask_.contains(wait.gang->request.name)) {
      changed.push_back(&wait);
    } else if (wait.gang->told_at != news || IsOver(told->estimated_start)) {
      stale.push_back(&wait);
    }
  }
  ChooseOldest(std::move(changed), options_.reworded_max, &chosen, result);
  ChooseOldest(std::move(stale), options_.refreshed_max, &chosen, result);
  for (const Wait& wait : waits) {
    if (!chosen.contains(&wait)) {
      LookWhenOver(*wait.gang->told, result);
      continue;
    }
    Unschedulable why = InWords(wait);
    LookWhenOver(why, result);
    if (wait.gang->told == why) {
      result->confirmed.push_back(wait.gang->request.name);
    } else {
      result->refusals.push_back({wait.gang->request.name, std::move(why)});
    }
  }
}

void Explanations::FindWhoMayNotAsk(const std::vector<Wait>& waits) {
  std::vector<const GangRecord*> asking;
  for (const Wait& wait : waits) {
    const GangRequest& request = wait.gang->request;
    if (wait.obstacle == Obstacle::kRoom && Asks(request) && request.standing == Standing::kReady) {
      asking.push_back(wait.gang);
    }
  }
  may_not_ask_ = WhoMayNotAsk(state_.queues(), std::move(asking));
}

bool Explanations::IsOver(const std::optional<WallTime>& start) const {
  return start && *start <= statement_.now();
}

// A start that was learnt may pass by without anything new, and is to be told anew then.
void Explanations::LookWhenOver(const Unschedulable& told, RoundResult* result) const {
  if (!state_.expecting().empty() && !IsOver(told.estimated_start)) {
    LookAgainAt(told.estimated_start, result);
  }
}

Unschedulable Explanations::InWords(const Wait& wait) {
  if (wait.obstacle == Obstacle::kTurn) {
    return {Constraint::kQueue, wait.text};
  }
  if (wait.obstacle == Obstacle::kQueueName) {
    return {Constraint::kQuota, wait.text};
  }
  if (wait.obstacle == Obstacle::kNamespace) {
    return {Constraint::kNamespace, wait.text};
  }
  if (wait.obstacle == Obstacle::kPriorityClass) {
    return {Constraint::kPriorityClass, wait.text};
  }
  Unschedulable why;
  const auto quota = state_.queues().Check(*wait.gang->queue, wait.gang->total);
  if (wait.obstacle == Obstacle::kQuota) {
    const auto never = state_.queues().WhyNeverHeld(*wait.gang->queue, wait.gang->total);
    why = {Constraint::kQuota,
           never   ? *never
           : quota ? quota->text
                   : "the queue now has quota for this job, because other jobs were asked to end"};
    // Who is given a larger queue should not find out only then.
    if (never && !Asks(wait.gang->request) && !MayFitEmpty(state_.nodes(), *wait.gang)) {
      why.shortfall += "; " + WhyNoRoom(state_.nodes(), *wait.gang, false).shortfall;
    }
  } else {
    why = WhyNoRoom(state_.nodes(), *wait.gang, wait.reached_limit);
    if (const auto held = may_not_ask_.find(wait.gang->request.name); held != may_not_ask_.end()) {
      why.not_asked = held->second;
    }
  }
  if (wait.is_first) {
    reservations_.AddStart(*wait.gang, &why);
  }
  if (!wait.text.empty()) {
    why.shortfall += "; " + wait.text;
  }
  if (wait.obstacle == Obstacle::kRoom) {
    why.shortfall += HeldByStuckPodsText(state_, *wait.gang, why.constraint);
  }
  return why;
}

}  // namespace lockstep::control
