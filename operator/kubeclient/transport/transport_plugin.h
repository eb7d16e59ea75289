#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "operator/kubeclient/transport/transport.h"
#include "operator/kubeclient/transport/transport_options.h"

// What a library with a transport shows to the program that loads it. Both are of one build: C++
// objects cross. A library of its own, because a program that does not use it shall not pay for it.
extern "C" {

// TransportStamp() as the library was built. Another than the program's does not fit.
const char* LockstepTransportStamp();

// As MakeTransport: `made` is set when `status` is ok. Nothing is thrown.
void LockstepMakeTransport(lockstep::control::TransportOptions* options,
                           lockstep::Status* status,
                           std::unique_ptr<lockstep::control::Transport>* made);

}  // extern "C"

namespace lockstep::control {

// What two builds have in common whose C++ objects fit: version, compiler, ABI, and the sizes of
// what crosses. Inline: each side says its own.
inline std::string TransportStamp() {
  return std::string("version " LOCKSTEP_VERSION ", compiler " __VERSION__ ", ABI ") +
         std::to_string(__GXX_ABI_VERSION) + "." + std::to_string(_GLIBCXX_USE_CXX11_ABI) +
         ", sizes " + std::to_string(sizeof(TransportOptions)) + "." +
         std::to_string(sizeof(Status)) + "." + std::to_string(sizeof(CallOptions));
}

// Whether a library with that stamp fits. Errors: kMismatch, naming both stamps.
Status CheckTransportStamp(const std::string& path, const std::string& stamp);

inline constexpr const char* kTransportStampEntry = "LockstepTransportStamp";
inline constexpr const char* kMakeTransportEntry = "LockstepMakeTransport";

}  // namespace lockstep::control
