#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fuzz {

// What became of one input.
struct Finding {
  bool is_accepted = false;    // the bytes were well-formed
  std::string broken_promise;  // empty when all is well
};

// One decoder of bytes from outside, as the fuzzers and the smoke test drive it.
struct Decoder {
  std::string_view name;

  // Decodes `bytes` and, where that succeeds, encodes the value and decodes it again. A promise is
  // broken when the second value differs from the first, when a document that we wrote ourselves is
  // refused, or when an error says nothing.
  Finding (*run)(std::string_view bytes);

  // Well-formed inputs to start mutations from.
  std::vector<std::string> (*seeds)();
};

// Every decoder of outside bytes, by name.
std::vector<Decoder> Decoders();

// The decoder of that name. Precondition (checked): there is one.
Decoder DecoderNamed(std::string_view name);

}  // namespace lockstep::fuzz
