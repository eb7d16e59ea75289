#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "tests/fuzz/decoders.h"

// What the decoders' checks are made of.

namespace lockstep::fuzz {

inline Finding Refused(const Error& error) {
  return {false, error.message().empty() ? "an error without a message" : ""};
}

inline Finding Accepted(std::string broken_promise = "") {
  return {true, std::move(broken_promise)};
}

// Whether `decode` reads `text`, an encoding of `value`, as an equal value.
template <typename Value, typename Decode>
Finding CheckReadBack(const Value& value, std::string_view text, const Decode& decode) {
  const Result<Value> second = decode(text);
  if (!second.ok()) {
    return Accepted("what was encoded is refused: " + second.error().ToString() + "\n" +
                    std::string(text));
  }
  return Accepted(
      *second == value ? "" : "what was encoded is read as something else:\n" + std::string(text));
}

// The whole check for a decoder whose encoder cannot fail.
template <typename Decode, typename Encode>
Finding RunRoundTrip(std::string_view bytes, const Decode& decode, const Encode& encode) {
  const auto value = decode(bytes);
  return value.ok() ? CheckReadBack(*value, encode(*value), decode) : Refused(value.error());
}

}  // namespace lockstep::fuzz
