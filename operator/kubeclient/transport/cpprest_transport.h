#pragma once

#include <memory>

#include "common/base/result.h"
#include "operator/kubeclient/transport/transport_options.h"

namespace lockstep::control {

// The transport on cpprestsdk 2.10.18, with the settings that make it safe
// (docs/decisions/0010-two-transports.md). What it does less well than the other: a connection that
// the server has closed is noticed by the call that is sent on it (a fault, never a second
// sending); a chunk is handed over when all of it has come; the age and idleness of connections are
// kept for all of a lane together; names are reached by IPv4 alone; TLS errors do not say their
// cause. Errors: kInvalidArgument (an IPv6 address, several headers of one name: the library can do
// neither).
Result<std::unique_ptr<Transport>> MakeCpprestTransport(TransportOptions options);

}  // namespace lockstep::control
