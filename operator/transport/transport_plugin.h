#pragma once

#include <memory>

#include "common/base/result.h"
#include "operator/transport/transport_options.h"

// What a library with a transport shows to the program that loads it. Both are of one build: C++
// objects cross. A library of its own, because a program that does not use it shall not pay for it.
extern "C" {

// The version that it was built as. Another than the program's does not fit.
const char* LockstepTransportVersion();

// As MakeTransport: `made` is set when `status` is ok. Nothing is thrown.
void LockstepMakeTransport(lockstep::control::TransportOptions* options,
                           lockstep::Status* status,
                           std::unique_ptr<lockstep::control::Transport>* made);

}  // extern "C"

namespace lockstep::control {

inline constexpr const char* kTransportVersionEntry = "LockstepTransportVersion";
inline constexpr const char* kMakeTransportEntry = "LockstepMakeTransport";

}  // namespace lockstep::control
