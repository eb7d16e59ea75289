#include "operator/kubeclient/credentials/base64.h"

#include <algorithm>

#include <openssl/evp.h>

namespace lockstep::control {

std::string EncodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and OpenSSL's final zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string packed;
  std::copy_if(text.begin(), text.end(), std::back_inserter(packed), [](char c) {
    return c != ' ' && c != '\t' && c != '\r' && c != '\n';
  });
  const std::size_t end = packed.find_last_not_of('=') + 1;  // 0 for npos
  const std::size_t padding = packed.size() - end;
  if (packed.size() % 4 != 0 || padding > 2) {
    return std::nullopt;
  }
  std::string bytes(packed.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(packed.data()),
                                   static_cast<int>(packed.size()));
  if (size < 0) {
    return std::nullopt;
  }
  bytes.resize(static_cast<std::size_t>(size) - padding);  // OpenSSL counts padding as zeros
  return bytes;
}

}  // namespace lockstep::control
