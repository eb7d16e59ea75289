#include "operator/scheduler/ask_turn.h"

#include <algorithm>
#include <tuple>

namespace lockstep::control {

std::map<std::string, std::string> WhoMayNotAsk(const QueueTree& queues,
                                                std::vector<const GangRecord*> asking) {
  std::map<std::string, std::string> why_not;
  if (asking.empty()) {
    return why_not;
  }
  std::stable_sort(asking.begin(), asking.end(), [](const GangRecord* a, const GangRecord* b) {
    const Asking& first = a->request.asking;
    const Asking& second = b->request.asking;
    return std::tie(first.stage, first.again_at) < std::tie(second.stage, second.again_at);
  });
  QueueTree charged = queues;
  for (const GangRecord* const gang : asking) {
    if (const auto shortfall = charged.Check(*gang->queue, gang->total)) {
      why_not[gang->request.name] =
          "Lockstep asks no autoscaler for this job yet, because other jobs ask first. With this "
          "job and those jobs, " +
          shortfall->text;
    } else {
      charged.Charge({*gang->queue, gang->space}, gang->total);
    }
  }
  return why_not;
}

}  // namespace lockstep::control
