#include "trainer-runtime/collectives/nccl/nccl_agreement.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "trainer-runtime/collectives/nccl/nccl_library.h"

namespace lockstep::runtime {
namespace {

struct KindRow {
  NcclObstacleKind kind;
  const char* word;
  ErrorCode code;  // where a job insists
};

// A missing library, or a GPU, is found before ranks meet; here it is another rank's. A stuck
// process is replaced, and the others meet its successor.
constexpr KindRow kKinds[] = {
    {NcclObstacleKind::kNone, "", ErrorCode::kInternal},
    {NcclObstacleKind::kNoDevice, "no-gpu", ErrorCode::kNotFound},
    {NcclObstacleKind::kNoLibrary, "no-library", ErrorCode::kNotFound},
    {NcclObstacleKind::kOldLibrary, "old-library", ErrorCode::kNotFound},
    {NcclObstacleKind::kUnusable, "unusable", ErrorCode::kUnavailable},
    {NcclObstacleKind::kMayBlock, "may-block", ErrorCode::kInvalidArgument},
    {NcclObstacleKind::kFailedToJoin, "failed-to-join", ErrorCode::kUnavailable},
    {NcclObstacleKind::kReleasesDiffer, "releases-differ", ErrorCode::kMismatch},
    {NcclObstacleKind::kDevicesDiffer, "devices-differ", ErrorCode::kMismatch},
    {NcclObstacleKind::kSharedDevice, "shared-gpu", ErrorCode::kInvalidArgument},
    {NcclObstacleKind::kStuck, "stuck", ErrorCode::kAborted},
};

const KindRow& RowOf(NcclObstacleKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) {
      return row;
    }
  }
  return kKinds[0];
}

template <std::size_t size>
std::string TextOf(const std::array<char, size>& text) {
  return std::string(text.data(), ::strnlen(text.data(), text.size()));
}

template <std::size_t size>
void Put(const std::string& text, std::array<char, size>* place) {
  std::copy_n(text.data(), std::min(text.size(), size - 1), place->data());
}

std::string RankText(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

bool IsStuck(const NcclOffer& offer) {
  return offer.ground != nullptr && offer.ground->is_stuck.load();
}

// What a rank says of itself.
std::optional<NcclObstacle> FindLack(const NcclHello& hello, std::size_t rank) {
  const auto kind = static_cast<NcclObstacleKind>(hello.lack);
  if (kind == NcclObstacleKind::kNone) {
    return std::nullopt;
  }
  if (kind == NcclObstacleKind::kStuck) {
    return NcclObstacle{
        kind, RankText(rank) + " cannot join: one of its earlier NCCL calls has not returned"};
  }
  const bool has_failed = kind == NcclObstacleKind::kFailedToJoin;
  return NcclObstacle{
      kind,
      RankText(rank) + (has_failed ? " could not join with NCCL: " : ": ") + TextOf(hello.words)};
}

// What it says that does not go with the first rank.
std::optional<NcclObstacle> FindDifference(const NcclHello& hello,
                                           const NcclHello& first,
                                           std::size_t rank) {
  // To the patch, as NCCL itself compares. Source: initTransportsRank in init.cc of NCCL.
  if (hello.version != first.version) {
    return NcclObstacle{
        NcclObstacleKind::kReleasesDiffer,
        "the version of NCCL differs: rank 0 has " + FormatNcclVersion(first.version) + ", " +
            RankText(rank) + " has " + FormatNcclVersion(hello.version) +
            ". NCCL needs the same version on all ranks: use the same image for all workers"};
  }
  if (hello.device_count != first.device_count) {
    return NcclObstacle{NcclObstacleKind::kDevicesDiffer,
                        "the number of GPUs differs: rank 0 has " +
                            std::to_string(first.device_count) + ", " + RankText(rank) + " has " +
                            std::to_string(hello.device_count)};
  }
  if (hello.is_staged != first.is_staged) {
    const std::size_t on_host = hello.is_staged != 0 ? rank : 0;
    return NcclObstacle{NcclObstacleKind::kDevicesDiffer,
                        RankText(on_host) + " computes in host memory, and " +
                            RankText(on_host == rank ? 0 : rank) + " on its GPU"};
  }
  return std::nullopt;
}

std::optional<NcclObstacle> FindSharing(const std::vector<NcclDeviceName>& names,
                                        std::size_t device_count) {
  std::map<std::string, std::size_t> user_of_device;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t rank = i / std::max<std::size_t>(1, device_count);
    const auto [entry, is_first] = user_of_device.emplace(TextOf(names[i]), rank);
    if (!is_first) {
      return NcclObstacle{NcclObstacleKind::kSharedDevice,
                          RankText(entry->second) + " and " + RankText(rank) + " would both use " +
                              entry->first + ", and NCCL allows only one rank on each GPU"};
    }
  }
  return std::nullopt;
}

// Puts the parts of all ranks together, each of which has filled its own: elsewhere all is zero.
template <typename Part>
Status Gather(std::vector<Part>* parts, Communicator* control, Deadline deadline) {
  return control->AllReduce(
      parts->data(), parts->size() * sizeof(Part), DataType::kUInt8, ReduceOp::kSum, deadline);
}

Result<std::vector<NcclDeviceName>> ExchangeNames(const NcclGround& ground,
                                                  Communicator* control,
                                                  Deadline deadline) {
  const std::size_t own = ground.devices.size();
  const auto rank = static_cast<std::size_t>(control->rank());
  std::vector<NcclDeviceName> names(own * static_cast<std::size_t>(control->world_size()));
  for (std::size_t i = 0; i < own; ++i) {
    names[rank * own + i] = MakeNcclDeviceName(ground.devices[i]->uuid());
  }
  LOCKSTEP_RETURN_IF_ERROR(Gather(&names, control, deadline));
  return names;
}

}  // namespace

const char* NcclObstacleWord(NcclObstacleKind kind) {
  return RowOf(kind).word;
}

Error NcclObstacle::ToError() const {
  return Error(RowOf(kind).code, sentence);
}

NcclOffer OfferNccl(std::span<const int> devices, const NcclFiles& files) {
  if (devices.empty()) {
    return {nullptr, 0, NcclObstacleKind::kNoDevice, "its engine computes in host memory", false};
  }
  auto ground = std::make_shared<NcclGround>();
  const auto lack = [&](NcclObstacleKind if_not_found, const Error& error) -> NcclOffer {
    const bool is_not_found = error.code() == ErrorCode::kNotFound;
    return {nullptr,
            static_cast<int>(devices.size()),
            is_not_found ? if_not_found : NcclObstacleKind::kUnusable,
            error.message(),
            false};
  };
  for (const int device : devices) {
    Result<std::shared_ptr<const CudaDevice>> opened = CudaDevice::Open(device, files.cuda);
    if (!opened.ok()) {
      return lack(NcclObstacleKind::kNoDevice, opened.error());
    }
    ground->devices.push_back(std::move(opened).value());
  }
  // What is there and lacks functions is too old; that it is there is asked of the loader.
  if (const auto object = SharedObject::Open(files.nccl); !object.ok()) {
    return lack(NcclObstacleKind::kNoLibrary, object.error());
  }
  Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::Open(files.nccl);
  if (!library.ok()) {
    return lack(NcclObstacleKind::kOldLibrary, library.error());
  }
  ground->library = std::move(library).value();
  return OfferOf(std::move(ground));
}

NcclOffer OfferOf(std::shared_ptr<NcclGround> ground) {
  const auto device_count = static_cast<int>(ground->devices.size());
  return {std::move(ground), device_count, NcclObstacleKind::kNone, "", false};
}

NcclHello MakeNcclHello(const NcclOffer& offer) {
  NcclHello hello;
  hello.device_count = offer.device_count;
  NcclObstacleKind lack = offer.lack;
  if (offer.ground != nullptr) {
    hello.version = offer.ground->library->version();
  }
  lack = IsStuck(offer) ? NcclObstacleKind::kStuck : lack;
  hello.lack = static_cast<uint32_t>(lack);
  hello.is_staged = offer.is_staged ? 1 : 0;
  const std::size_t room = hello.words.size() - 1;
  const bool fits = offer.words.size() <= room;
  Put(fits ? offer.words : offer.words.substr(0, room - 3) + "...", &hello.words);
  return hello;
}

NcclDeviceName MakeNcclDeviceName(const std::string& uuid) {
  NcclDeviceName name{};
  Put(uuid, &name);
  return name;
}

std::optional<NcclObstacle> FindNcclObstacle(const std::vector<NcclHello>& hellos,
                                             const std::vector<NcclDeviceName>& names) {
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    if (auto lack = FindLack(hellos[rank], rank)) {
      return lack;
    }
  }
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    if (auto difference = FindDifference(hellos[rank], hellos.front(), rank)) {
      return difference;
    }
  }
  return FindSharing(names, static_cast<std::size_t>(hellos.front().device_count));
}

Result<NcclAgreement> AgreeOnNccl(const NcclOffer& mine, Communicator* control, Deadline deadline) {
  std::vector<NcclHello> hellos(static_cast<std::size_t>(control->world_size()));
  hellos[static_cast<std::size_t>(control->rank())] = MakeNcclHello(mine);
  LOCKSTEP_RETURN_IF_ERROR(Gather(&hellos, control, deadline));
  NcclAgreement agreement;
  agreement.is_of_devices =
      std::ranges::any_of(hellos, [](const NcclHello& hello) { return hello.device_count > 0; });
  agreement.obstacle = FindNcclObstacle(hellos, {});
  if (agreement.obstacle.has_value() && agreement.obstacle->kind == NcclObstacleKind::kStuck) {
    return IsStuck(mine) ? Error(ErrorCode::kInternal,
                                 "an earlier NCCL call has not returned in this process")
                         : agreement.obstacle->ToError();
  }
  if (!agreement.obstacle.has_value()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<NcclDeviceName> names,
                              ExchangeNames(*mine.ground, control, deadline));
    agreement.obstacle = FindNcclObstacle(hellos, names);
  }
  return agreement;
}

}  // namespace lockstep::runtime
