#include "tests/fuzz/decoders.h"

#include "common/base/check.h"
#include "tests/fuzz/decoder_lists.h"

namespace lockstep::fuzz {

std::vector<Decoder> Decoders() {
  std::vector<Decoder> all;
  for (const auto& list :
       {CommonDecoders(), OperatorDecoders(), KubeDecoders(), RuntimeDecoders()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

Decoder DecoderNamed(std::string_view name) {
  for (const Decoder& decoder : Decoders()) {
    if (decoder.name == name) {
      return decoder;
    }
  }
  LOCKSTEP_CHECK(false, "no decoder is called " + std::string(name));
}

}  // namespace lockstep::fuzz
