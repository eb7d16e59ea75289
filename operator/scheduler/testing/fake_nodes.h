#pragma once

#include <cstdint>
#include <string>

#include "operator/scheduler/plan/plan.h"

namespace lockstep::control {

// For tests of plans.

inline constexpr int64_t kGiB = 1024LL * 1024 * 1024;

SnapshotNode MakeNode(const std::string& name,
                      ResourceVector allocatable,
                      ResourceVector used = {});

// `count` pods called "{name}-0", ...
PodClass MakeClass(const std::string& name, int count, ResourceVector request);

// The plan or the refusal as one line, for comparison and messages.
std::string Show(const PlanResult& result);

}  // namespace lockstep::control
