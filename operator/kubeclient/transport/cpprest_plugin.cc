#include <string>
#include <utility>

#include "operator/kubeclient/transport/cpprest_transport.h"
#include "operator/kubeclient/transport/transport_plugin.h"

__attribute__((visibility("default"))) const char* LockstepTransportStamp() {
  static const std::string stamp = lockstep::control::TransportStamp();
  return stamp.c_str();
}

__attribute__((visibility("default"))) void LockstepMakeTransport(
    lockstep::control::TransportOptions* options,
    lockstep::Status* status,
    std::unique_ptr<lockstep::control::Transport>* made) {
  auto transport = lockstep::control::MakeCpprestTransport(std::move(*options));
  *status = transport.ok() ? lockstep::OkStatus() : lockstep::Status(transport.error());
  if (transport.ok()) {
    *made = std::move(transport).value();
  }
}
