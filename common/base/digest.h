#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// SHA-256 of `bytes` as 64 lower-case hexadecimal digits. Source: OpenSSL's libcrypto.
std::string Sha256Hex(std::string_view bytes);

// HMAC-SHA-256 of `bytes` under `key`, 64 hexadecimal digits.
std::string HmacSha256Hex(std::string_view key, std::string_view bytes);

// Whether two secrets are equal, in time that depends only on their lengths.
bool ConstantTimeEquals(std::string_view a, std::string_view b);

// `byte_count` bytes from the system's random source, as hexadecimal digits: for keys and uids.
std::string RandomHex(std::size_t byte_count);

}  // namespace lockstep
