#include "operator/reconcile/failure/budget.h"

#include <algorithm>
#include <utility>

#include "common/contract/status/exit_code.h"

namespace lockstep::control {
namespace {

int64_t SumOf(const std::vector<Incident>& incidents, bool is_free) {
  int64_t sum = 0;
  for (const Incident& incident : incidents) {
    sum += incident.is_free == is_free ? incident.count : 0;
  }
  return sum;
}

bool IsWithinWindow(const Incident& incident, std::chrono::milliseconds window, WallTime now) {
  return now - incident.at <= window;
}

// Whether `incident`, which began before this turn, pays for `charge`.
bool TakesIn(const Incident& incident,
             const Charge& charge,
             const BudgetTerms& terms,
             WallTime now) {
  if (charge.cause == kCauseStartTimeout) {
    return incident.cause != kCauseStartTimeout && charge.pod_since >= incident.at &&
           charge.pod_since <= incident.at + kIncidentWindow;
  }
  if (charge.pod_since >= incident.at) {
    return false;
  }
  if (charge.cause == ExitCauseName(ExitCause::kUnreachable)) {
    return IsWithinWindow(incident, terms.echo_window + kIncidentWindow, now);
  }
  if (charge.is_free) {
    return IsWithinWindow(incident, kIncidentWindow, now);
  }
  return !incident.is_free && !charge.node.empty() && incident.node == charge.node &&
         IsWithinWindow(incident, kIncidentWindow, now);
}

// Whether both of one turn are one incident. Who only waited for others in vain follows whatever
// else has happened.
bool AreOne(const Incident& incident, const Charge& charge) {
  const bool is_echo = charge.cause == ExitCauseName(ExitCause::kUnreachable);
  const bool is_same_node =
      !incident.is_free && !charge.node.empty() && incident.node == charge.node;
  return is_echo || (charge.is_free ? incident.is_free : is_same_node);
}

// Keeps the list short; what it sums up to stays.
void PutOldestTogether(std::vector<Incident>* incidents) {
  while (incidents->size() > kIncidentsListedMax) {
    const auto next_of_kind = [&](auto first) {
      return std::find_if(first + 1, incidents->end(), [&](const Incident& one) {
        return one.is_free == first->is_free;
      });
    };
    auto first = incidents->begin();
    while (next_of_kind(first) == incidents->end()) {
      ++first;  // there are two kinds and more than two incidents: this ends
    }
    const auto second = next_of_kind(first);
    second->count += first->count;
    second->node.clear();
    incidents->erase(first);
  }
}

}  // namespace

bool IsFreeCause(std::string_view cause) {
  return cause == ExitCauseName(ExitCause::kPreempted) ||
         cause == ExitCauseName(ExitCause::kCompleted) || cause == kCauseNotStarted;
}

std::vector<Incident> Remembered(std::vector<Incident> known,
                                 int64_t checkpoint_step,
                                 WallTime now) {
  std::erase_if(known, [&](const Incident& incident) {
    const bool is_made_good = !incident.is_free && checkpoint_step > incident.step &&
                              !IsWithinWindow(incident, kIncidentWindow, now);
    return is_made_good || !IsWithinWindow(incident, kBudgetWindow, now);
  });
  return known;
}

std::vector<Incident> Charged(std::vector<Incident> known,
                              const std::vector<Charge>& charges,
                              const BudgetTerms& terms,
                              WallTime now) {
  // Causes come before their echoes, whatever the order of the pods.
  std::vector<Charge> ordered = charges;
  std::stable_partition(ordered.begin(), ordered.end(), [](const Charge& charge) {
    return charge.cause != ExitCauseName(ExitCause::kUnreachable);
  });
  std::vector<Incident> fresh;
  for (const Charge& charge : ordered) {
    const bool is_paid =
        std::any_of(known.begin(),
                    known.end(),
                    [&](const Incident& one) { return TakesIn(one, charge, terms, now); }) ||
        std::any_of(
            fresh.begin(), fresh.end(), [&](const Incident& one) { return AreOne(one, charge); });
    if (!is_paid) {
      fresh.push_back(
          {now, charge.cause, charge.node, terms.checkpoint_step, charge.is_free, /*count=*/1});
    }
  }
  known.insert(known.end(), fresh.begin(), fresh.end());
  PutOldestTogether(&known);
  return known;
}

int64_t CountedIncidents(const std::vector<Incident>& incidents) {
  return SumOf(incidents, /*is_free=*/false);
}

int64_t FreeIncidents(const std::vector<Incident>& incidents) {
  return SumOf(incidents, /*is_free=*/true);
}

std::vector<RestartCount> WithRestart(std::vector<RestartCount> restarts, std::string_view cause) {
  const std::string key(cause);
  const auto place = std::lower_bound(
      restarts.begin(), restarts.end(), key, [](const RestartCount& a, const std::string& b) {
        return a.cause < b;
      });
  if (place != restarts.end() && place->cause == key) {
    ++place->count;
  } else {
    restarts.insert(place, {key, 1});
  }
  return restarts;
}

std::vector<RestartCount> WithRestartMoved(std::vector<RestartCount> restarts,
                                           std::string_view from,
                                           std::string_view to) {
  for (RestartCount& restart : restarts) {
    restart.count -= restart.cause == from ? 1 : 0;
  }
  std::erase_if(restarts, [](const RestartCount& restart) { return restart.count == 0; });
  return WithRestart(std::move(restarts), to);
}

int64_t RestartsFor(std::string_view cause, const FailureStatus& status) {
  for (const RestartCount& restart : status.restarts) {
    if (restart.cause == cause) {
      return restart.count;
    }
  }
  return 0;
}

}  // namespace lockstep::control
