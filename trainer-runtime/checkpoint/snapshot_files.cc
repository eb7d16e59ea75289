// The built-in trainer's state as the tensors and the manifest of a checkpoint, and back.

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "trainer-runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kLedgerTensor = "lockstep/ledger";

Manifest ManifestOf(const Snapshot& snapshot) {
  Manifest manifest;
  manifest.step = snapshot.step;
  manifest.cursor = snapshot.cursor;
  manifest.seed = snapshot.seed;
  manifest.world_size = snapshot.world_size;
  manifest.fingerprint = snapshot.fingerprint;
  manifest.sums = snapshot.sums;
  manifest.loss_scale = snapshot.loss_scale;
  manifest.is_finite = snapshot.is_finite;
  return manifest;
}

std::vector<TensorSlice> SlicesOf(const Snapshot& snapshot) {
  std::vector<TensorSlice> slices;
  for (const NamedTensor& tensor : snapshot.tensors) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.values.data()),
                                 tensor.values.size() * sizeof(float));
    slices.push_back({tensor.name, TensorType::kFloat32, tensor.shape, bytes});
  }
  slices.push_back({kLedgerTensor,
                    TensorType::kUInt8,
                    {static_cast<int64_t>(snapshot.ledger.size())},
                    snapshot.ledger});
  return slices;
}

Result<Snapshot> Assemble(const Manifest& manifest, std::string_view file) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<TensorSlice> slices, DecodeSafetensors(file));
  Snapshot snapshot;
  snapshot.step = manifest.step;
  snapshot.cursor = manifest.cursor;
  snapshot.seed = manifest.seed;
  snapshot.world_size = manifest.world_size;
  snapshot.fingerprint = manifest.fingerprint;
  snapshot.sums = manifest.sums;
  snapshot.loss_scale = manifest.loss_scale;
  snapshot.is_finite = manifest.is_finite;
  for (const TensorSlice& slice : slices) {
    if (slice.name == kLedgerTensor) {
      snapshot.ledger = slice.bytes;
      continue;
    }
    if (slice.type != TensorType::kFloat32) {
      return Error(ErrorCode::kCorrupt, slice.name + " is not float32");
    }
    NamedTensor tensor{slice.name, slice.shape, {}};
    tensor.values.resize(slice.bytes.size() / sizeof(float));
    if (!slice.bytes.empty()) {
      std::memcpy(tensor.values.data(), slice.bytes.data(), slice.bytes.size());
    }
    snapshot.tensors.push_back(std::move(tensor));
  }
  return snapshot;
}

}  // namespace

Result<int64_t> CheckpointDirectory::Publish(const Snapshot& snapshot) {
  return Publish(ManifestOf(snapshot), SlicesOf(snapshot), {{"format", "lockstep"}});
}

Result<std::optional<Snapshot>> CheckpointDirectory::LoadNewest() const {
  std::optional<Snapshot> newest;
  const CheckpointTaker take = [&](const FoundCheckpoint& found) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(newest, Assemble(found.manifest, found.tensors));
    return OkStatus();
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const bool is_there, TakeNewest({}, take));
  static_cast<void>(is_there);
  return newest;
}

}  // namespace lockstep::runtime
