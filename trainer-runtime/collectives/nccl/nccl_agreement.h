#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace lockstep::runtime {

// What each rank says before NCCL is asked, in the form in which it travels: ranks are copies of
// one program on one architecture.
struct NcclHello {
  int32_t version = 0;  // of the library, as NCCL counts it
  uint32_t is_unable = 0;
  std::array<char, 48> device_uuid{};  // ends with a zero
};

static_assert(sizeof(NcclHello) == 56);

// The uuid is cut to its place.
NcclHello MakeNcclHello(int version, const std::string& device_uuid, bool is_unable);

// Whether ranks that say so can be joined. NCCL would find out too, late and in other words.
// Errors: kMismatch (two ranks have libraries of different releases), kInvalidArgument (two ranks
// would use one GPU), kAborted (a rank has a call of an earlier epoch that does not end); each
// names the ranks.
Status CheckNcclHellos(const std::vector<NcclHello>& hellos);

}  // namespace lockstep::runtime
