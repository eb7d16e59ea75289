#include "operator/reconcile/gang/reported_epoch.h"

#include <algorithm>

namespace lockstep::control {

Epoch ReportedEpoch(const Member& member, Epoch known) {
  if (member.report == nullptr || member.report->document.epoch > kEpochMax) {
    return known;
  }
  return std::max(known, member.report->document.epoch);
}

}  // namespace lockstep::control
