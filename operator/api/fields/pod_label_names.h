#pragma once

namespace lockstep::control::label {

// Labels by which a pod says whose it is and what it stands for. They are written at birth and
// never changed, so an operator that restarts knows its pods again, and selectors find them.

inline constexpr const char* kJob = "lockstep.dev/job";
inline constexpr const char* kJobUid = "lockstep.dev/job-uid";
inline constexpr const char* kRole = "lockstep.dev/role";
inline constexpr const char* kIndex = "lockstep.dev/index";
inline constexpr const char* kRank = "lockstep.dev/rank";  // absent for ps and evaluator
inline constexpr const char* kAttempt = "lockstep.dev/attempt";
inline constexpr const char* kIncarnation = "lockstep.dev/incarnation";

// Of a placeholder pod, which stands for nothing and has none of the others: the job that it shows
// to cluster autoscalers.
inline constexpr const char* kPlaceholderOf = "lockstep.dev/placeholder-of";

}  // namespace lockstep::control::label
