#include "common/base/digest.h"

#include <array>
#include <span>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "common/base/check.h"

namespace lockstep {
namespace {

using DigestBytes = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string ToHex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const unsigned char byte : bytes) {
    text.push_back(kDigits[byte >> 4U]);
    text.push_back(kDigits[byte & 0xfU]);
  }
  return text;
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  DigestBytes digest{};
  unsigned int digest_size = 0;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &digest_size, EVP_sha256(), nullptr);
  LOCKSTEP_CHECK(done == 1, "libcrypto could not compute SHA-256");
  return ToHex(std::span(digest).first(digest_size));
}

std::string HmacSha256Hex(std::string_view key, std::string_view bytes) {
  DigestBytes digest{};
  unsigned int digest_size = 0;
  const unsigned char* done = HMAC(EVP_sha256(),
                                   key.data(),
                                   static_cast<int>(key.size()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   bytes.size(),
                                   digest.data(),
                                   &digest_size);
  LOCKSTEP_CHECK(done != nullptr, "libcrypto could not compute HMAC-SHA-256");
  return ToHex(std::span(digest).first(digest_size));
}

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomHex(std::size_t byte_count) {
  std::array<unsigned char, 64> bytes{};
  LOCKSTEP_CHECK(byte_count <= bytes.size(), "RandomHex gives at most 64 bytes");
  const ssize_t got = ::getrandom(bytes.data(), byte_count, 0);
  LOCKSTEP_CHECK(got == static_cast<ssize_t>(byte_count), "the system's random source failed");
  return ToHex(std::span(bytes).first(byte_count));
}

}  // namespace lockstep
