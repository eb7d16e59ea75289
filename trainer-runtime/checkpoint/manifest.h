#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/contract/hashed_document.h"
#include "trainer-runtime/checkpoint/fence.h"
#include "trainer-runtime/checkpoint/snapshot.h"

namespace lockstep::runtime {

// A checkpoint's description: what it holds, who wrote it, and what its tensors file must hash to.
struct Manifest {
  WriterIdentity writer;
  Step step;
  SavedCursor cursor;
  int64_t seed = 0;
  int world_size = 1;
  std::string fingerprint;  // as in Snapshot
  SavedSums sums;
  std::optional<LossScale> loss_scale;  // as in Snapshot
  bool is_finite = true;
  std::string tensors_file;  // name within the checkpoint's folder
  std::size_t tensors_bytes = 0;
  std::string tensors_sha256;  // 64 hexadecimal digits
  std::string created;         // RFC 3339, for people

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Written is 3 where there is a loss scale, so that a release that knows none refuses to go on
// without it, and 2 otherwise; version 1 is read too: docs/reference/checkpoints.md says what it
// lacks.
inline constexpr int kManifestVersion = 3;
inline constexpr int kManifestVersionOldest = 1;

// One JSON object whose member `sha256` is the hash of the object without it; so a damaged
// manifest is told from a sound one by itself.
std::string EncodeManifest(const Manifest& manifest, KeyOrder order = KeyOrder::kAsWritten);

// Strict. Errors: kCorrupt (syntax, a field, the hash), kMismatch (written by a later version).
Result<Manifest> DecodeManifest(std::string_view text);

// fence.json, and back. Errors: kCorrupt.
std::string EncodeFence(const Fence& fence, KeyOrder order = KeyOrder::kAsWritten);
Result<Fence> DecodeFence(std::string_view text);

}  // namespace lockstep::runtime
