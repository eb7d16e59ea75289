#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::control {

// RFC 4648 with padding. Source: OpenSSL's libcrypto.
std::string EncodeBase64(std::string_view bytes);

// The bytes; spaces and line ends are skipped. Null when it is not base64.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace lockstep::control
