#pragma once

#include <memory>

#include "common/base/result.h"
#include "operator/kubeclient/transport/transport_options.h"

namespace lockstep::control {

// The transport on the library that was chosen. Beast is inside the program; cpprestsdk and what it
// needs come with liblockstep-transport-cpprest.so, which is looked for beside the program and in
// ../lib/lockstep, and stays loaded.
// Errors: kNotFound (the file, or a library that it needs), kMismatch (it is of another version),
// kInvalidArgument (what that library cannot do, see cpprest_transport.h).
Result<std::unique_ptr<Transport>> MakeTransport(TransportKind kind, TransportOptions options);

}  // namespace lockstep::control
