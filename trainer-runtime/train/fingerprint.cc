#include "trainer-runtime/train/fingerprint.h"

#include "common/contract/training/state_fingerprint.h"

namespace lockstep::runtime {

std::string MakeFingerprint(const TrainingSpec& spec, const Dataset& train) {
  Json fingerprint = FingerprintOf(spec);
  Json& data = fingerprint[kFingerprintDataKey];
  data = {{"samples", train.sample_count()}, {"crc32", train.checksum()}};
  if (!train.part().empty()) {
    data["part"] = train.part();
  }
  return DumpJson(fingerprint);
}

}  // namespace lockstep::runtime
