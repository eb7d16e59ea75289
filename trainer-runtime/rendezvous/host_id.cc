#include "trainer-runtime/rendezvous/host_id.h"

#include <cstddef>
#include <unistd.h>

#include <sys/stat.h>

#include "common/base/digest.h"
#include "common/base/io/file.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kBootIdPath = "/proc/sys/kernel/random/boot_id";  // random(4)
constexpr const char* kNetworkNamespacePath = "/proc/self/ns/net";      // namespaces(7)
constexpr std::size_t kBootIdBytesMax = 64;
constexpr std::size_t kRandomIdBytes = 16;

}  // namespace

std::string ReadHostId() {
  const Result<std::string> boot_id = ReadFile(kBootIdPath, kBootIdBytesMax);

  struct stat network {};

  if (!boot_id.ok() || ::stat(kNetworkNamespacePath, &network) != 0) {
    return "unknown-" + RandomHex(kRandomIdBytes);
  }
  const std::string place = *boot_id + ":" + std::to_string(network.st_dev) + ":" +
                            std::to_string(network.st_ino) + ":" + std::to_string(::geteuid());
  return Sha256Hex(place).substr(0, 2 * kRandomIdBytes);
}

}  // namespace lockstep::runtime
