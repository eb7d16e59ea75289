#include "trainer-runtime/collectives/nccl/nccl_agreement.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "trainer-runtime/collectives/nccl/nccl_library.h"

namespace lockstep::runtime {
namespace {

// Patches of one release work together, releases do not.
int ReleaseOf(int version) {
  return version / 100;
}

std::string UuidOf(const NcclHello& hello) {
  return std::string(hello.device_uuid.data(),
                     ::strnlen(hello.device_uuid.data(), hello.device_uuid.size()));
}

std::string RankText(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

NcclHello MakeNcclHello(int version, const std::string& device_uuid, bool is_unable) {
  NcclHello hello;
  hello.version = version;
  hello.is_unable = is_unable ? 1 : 0;
  std::copy_n(device_uuid.data(),
              std::min(device_uuid.size(), hello.device_uuid.size() - 1),
              hello.device_uuid.data());
  return hello;
}

Status CheckNcclHellos(const std::vector<NcclHello>& hellos) {
  std::map<std::string, std::size_t> user_of_device;
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    const NcclHello& hello = hellos[rank];
    if (hello.is_unable != 0) {
      return Error(ErrorCode::kAborted,
                   RankText(rank) + " cannot join: an earlier call of NCCL has not returned there");
    }
    if (ReleaseOf(hello.version) != ReleaseOf(hellos.front().version)) {
      return Error(ErrorCode::kMismatch,
                   "NCCL differs: rank 0 has " + FormatNcclVersion(hellos.front().version) + ", " +
                       RankText(rank) + " has " + FormatNcclVersion(hello.version));
    }
    const auto [entry, is_first] = user_of_device.emplace(UuidOf(hello), rank);
    if (!is_first) {
      return Error(ErrorCode::kInvalidArgument,
                   RankText(entry->second) + " and " + RankText(rank) + " would both use " +
                       entry->first + ", and NCCL takes one rank on a GPU");
    }
  }
  return OkStatus();
}

}  // namespace lockstep::runtime
