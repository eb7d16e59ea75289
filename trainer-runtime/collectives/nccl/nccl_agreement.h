#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/nccl/nccl_communicator.h"

namespace lockstep::runtime {

// Why ranks cannot sum by NCCL.
enum class NcclObstacleKind : uint8_t {
  kNone,
  kNoDevice,        // a rank has no GPU, or its engine computes in the host's memory
  kNoLibrary,       // libnccl.so.2 is not there
  kOldLibrary,      // it cannot join without blocking
  kUnusable,        // driver or library are there and refuse
  kMayBlock,        // a variable of NCCL's own makes its calls wait without an end
  kFailedToJoin,    // at an earlier meeting
  kReleasesDiffer,  // of the library, be it in the patch
  kDevicesDiffer,   // not all ranks have as many, or not all compute on them
  kSharedDevice,    // two ranks would use one GPU
  kStuck            // a call of an earlier epoch does not end
};

// The word of the status document: "no-gpu", "no-library", ...
const char* NcclObstacleWord(NcclObstacleKind kind);

// What is in the way of NCCL, of whom, in a sentence that names the ranks.
struct NcclObstacle {
  NcclObstacleKind kind = NcclObstacleKind::kNone;
  std::string sentence;

  // For a job that insists: kInvalidArgument, kMismatch, kAborted, kNotFound, kUnavailable.
  Error ToError() const;
};

// What one rank brings to NCCL: a ground, or why it has none.
struct NcclOffer {
  std::shared_ptr<NcclGround> ground;  // shared: see NcclCommunicator
  int device_count = 0;  // that its engines compute on, or its gradients are brought to
  NcclObstacleKind lack = NcclObstacleKind::kNone;
  std::string words;       // of the lack
  bool is_staged = false;  // its gradients are brought there
};

// What the engines of this process compute on makes an offer, `devices` by CUDA's numbers; empty:
// the host's memory. Never fails: what is missing is the offer's lack.
NcclOffer OfferNccl(std::span<const int> devices, const NcclFiles& files = {});

// The offer of whoever has all that is needed.
NcclOffer OfferOf(std::shared_ptr<NcclGround> ground);

// An offer as the other ranks hear of it, in the form in which it travels: ranks are copies of one
// program on one architecture.
struct NcclHello {
  int32_t version = 0;  // of the library, as NCCL counts it
  int32_t device_count = 0;
  uint32_t lack = 0;  // NcclObstacleKind
  int32_t is_staged = 0;
  std::array<char, 496> words{};  // ends with a zero; choice: room for a sentence of NCCL's
};

static_assert(sizeof(NcclHello) == 512);

// The name of a GPU as it travels; ends with a zero.
using NcclDeviceName = std::array<char, 48>;

// The words, and the name, are cut to their places.
NcclHello MakeNcclHello(const NcclOffer& offer);
NcclDeviceName MakeNcclDeviceName(const std::string& uuid);

// What is in the way of ranks that say so; null: they can be joined. NCCL would find out too, late
// and in other words. `names` are those of all ranks' devices, one rank's after the other's; empty
// where they are not asked for yet.
std::optional<NcclObstacle> FindNcclObstacle(const std::vector<NcclHello>& hellos,
                                             const std::vector<NcclDeviceName>& names);

// What the ranks of a meeting have come to. The same on all of them, as all judge by the same list.
struct NcclAgreement {
  std::optional<NcclObstacle> obstacle;  // null: all sum by NCCL
  // Some rank has a GPU that its engine computes on. Without any, nobody misses NCCL.
  bool is_of_devices = false;
};

// Tells the others of `mine`, hears of theirs: collective. Errors: those of Communicator; where a
// rank is stuck, as it is replaced: kInternal there, kAborted on the others.
Result<NcclAgreement> AgreeOnNccl(const NcclOffer& mine, Communicator* control, Deadline deadline);

}  // namespace lockstep::runtime
