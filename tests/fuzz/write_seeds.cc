#include <cstdio>
#include <string>

#include "common/base/io/file.h"
#include "tests/fuzz/decoders.h"

namespace {

lockstep::Status WriteSeeds(const std::string& directory) {
  for (const lockstep::fuzz::Decoder& decoder : lockstep::fuzz::Decoders()) {
    const std::string folder = directory + "/" + std::string(decoder.name);
    LOCKSTEP_RETURN_IF_ERROR(lockstep::MakeDirectories(folder));
    int number = 0;
    for (const std::string& seed : decoder.seeds()) {
      LOCKSTEP_RETURN_IF_ERROR(
          lockstep::WriteFileAtomically(folder + "/seed" + std::to_string(number++), seed));
    }
  }
  return lockstep::OkStatus();
}

}  // namespace

// Writes each decoder's seeds to DIRECTORY/NAME/, where libFuzzer takes them as its first corpus.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: lockstep_fuzz_seeds DIRECTORY\n", stderr);
    return 2;
  }
  const lockstep::Status written = WriteSeeds(argv[1]);
  if (!written.ok()) {
    std::fprintf(stderr, "%s\n", written.error().ToString().c_str());
    return 1;
  }
  return 0;
}
