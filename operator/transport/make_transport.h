#pragma once

#include <memory>

#include "common/base/result.h"
#include "operator/transport/transport_options.h"

namespace lockstep::control {

// The transport on the library that was chosen.
// Errors: kInvalidArgument (what that library cannot do, see cpprest_transport.h).
Result<std::unique_ptr<Transport>> MakeTransport(TransportKind kind, TransportOptions options);

}  // namespace lockstep::control
