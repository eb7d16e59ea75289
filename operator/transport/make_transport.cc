#include "operator/transport/make_transport.h"

#include <utility>

#include "operator/transport/beast_transport.h"
#include "operator/transport/cpprest_transport.h"

namespace lockstep::control {

Result<std::unique_ptr<Transport>> MakeTransport(TransportKind kind, TransportOptions options) {
  if (kind == TransportKind::kCpprest) {
    return MakeCpprestTransport(std::move(options));
  }
  return MakeBeastTransport(std::move(options));
}

}  // namespace lockstep::control
