#pragma once

#include <memory>

#include "operator/kubeclient/transport/transport_options.h"

namespace lockstep::control {

// The transport on Boost.Beast: one thread for all connections.
std::unique_ptr<Transport> MakeBeastTransport(TransportOptions options);

}  // namespace lockstep::control
