#pragma once

#include <chrono>

namespace lockstep::control {

// How long the kubelet of a process that has ended is waited for to tell how. Choice: real kubelets
// took up to 2.3 s.
inline constexpr std::chrono::seconds kVerdictPatience{5};

}  // namespace lockstep::control
