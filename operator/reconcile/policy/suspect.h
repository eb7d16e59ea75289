#pragma once

#include <chrono>
#include <set>

#include "operator/api/training_job.h"
#include "operator/reconcile/gang_view.h"

namespace lockstep::control {

// A report older than this proves nothing about now. Choice: several times the 200 ms at which
// reports are gathered, and well below the two seconds in which a hang must be noticed.
inline constexpr Duration kReportFresh = std::chrono::milliseconds(1000);

// Ranks that hang: a connected peer of the same epoch has heard nothing of them for `silent_after`,
// and they give no fresh report of their own. Both are required: a rank that still answers is not
// killed because one connection is slow, and a rank whose report is late is not killed while its
// peers hear it. Where nobody gives fresh reports nobody is suspected: then the observer is blind.
std::set<int> HangingRanks(const GangView& view, std::chrono::milliseconds silent_after);

}  // namespace lockstep::control
