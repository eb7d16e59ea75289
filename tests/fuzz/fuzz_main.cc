#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "tests/fuzz/decoders.h"

// libFuzzer's entry point, compiled once for each decoder: LOCKSTEP_FUZZ_DECODER is its name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const lockstep::fuzz::Decoder decoder =
      lockstep::fuzz::DecoderNamed(LOCKSTEP_FUZZ_DECODER);
  const lockstep::fuzz::Finding finding = decoder.run({reinterpret_cast<const char*>(data), size});
  LOCKSTEP_CHECK(finding.broken_promise.empty(), finding.broken_promise);
  return 0;
}
