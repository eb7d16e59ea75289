#include "operator/kubeclient/transport/credentials.h"

#include <utility>

namespace lockstep::control {

FixedCredentials::FixedCredentials(CredentialSnapshot snapshot)
    : snapshot_(std::make_shared<const CredentialSnapshot>(std::move(snapshot))) {}

}  // namespace lockstep::control
