#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/json/json.h"
#include "tests/fuzz/decoder_kit.h"
#include "tests/fuzz/decoder_lists.h"
#include "trainer-runtime/checkpoint/manifest.h"
#include "trainer-runtime/checkpoint/safetensors.h"
#include "trainer-runtime/data/idx_reader.h"
#include "trainer-runtime/rendezvous/frames.h"

namespace lockstep::fuzz {
namespace {

using runtime::IdxTensor;
using runtime::TensorSlice;

// --- Data ---

// Little enough that a bomb shows: what inflates to more must be refused.
constexpr std::size_t kIdxBytesMax = 1 << 16;

std::string EncodeIdx(const IdxTensor& tensor) {
  std::string bytes = {0, 0, 8, static_cast<char>(tensor.shape.size())};
  for (const int64_t length : tensor.shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(length >> shift & 0xff);
    }
  }
  return bytes.append(tensor.values.begin(), tensor.values.end());
}

Finding RunIdx(std::string_view bytes) {
  const auto tensor = runtime::DecodeIdx(bytes, "idx", kIdxBytesMax);
  if (!tensor.ok()) {
    return Refused(tensor.error());
  }
  if (tensor->values.size() > kIdxBytesMax) {
    return Accepted("more than the limit is accepted");
  }
  const std::string plain = EncodeIdx(*tensor);
  const auto second = runtime::DecodeIdx(plain, "idx", kIdxBytesMax);
  return Accepted(second.ok() && second->shape == tensor->shape && second->values == tensor->values
                      ? ""
                      : "what was encoded is refused or read as something else");
}

std::vector<std::string> IdxSeeds() {
  using namespace std::string_literals;
  return {EncodeIdx({{3}, {7, 8, 9}}),
          EncodeIdx({{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}),
          EncodeIdx({{0, 28, 28}, {}}),
          // gzip of a tensor of 2 x 3
          "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x63\x60\xe0\x60\x62\x60\x60\x00\x61\x66\x06"
          "\x46\x26\x66\x16\x56\x00\x26\x2c\x23\x54\x12\x00\x00\x00"s};
}

// --- Checkpoints ---

Finding RunSafetensors(std::string_view bytes) {
  const auto tensors = runtime::DecodeSafetensors(bytes);
  if (!tensors.ok()) {
    return Refused(tensors.error());
  }
  const std::string file = runtime::EncodeSafetensors(*tensors, {});
  const auto second = runtime::DecodeSafetensors(file);
  const auto is_equal = [](const TensorSlice& a, const TensorSlice& b) {
    return a.name == b.name && a.type == b.type && a.shape == b.shape && a.bytes == b.bytes;
  };
  return Accepted(
      second.ok() &&
              std::equal(tensors->begin(), tensors->end(), second->begin(), second->end(), is_equal)
          ? ""
          : "what was encoded is refused or read as something else:\n" + file);
}

std::vector<std::string> SafetensorsSeeds() {
  const std::vector<TensorSlice> tensors = {
      {"layer0/kernel", runtime::TensorType::kFloat32, {1, 2}, "12345678"},
      {"ledger", runtime::TensorType::kUInt8, {3}, "abc"},
      {"empty", runtime::TensorType::kFloat32, {0, 5}, ""},
      {"scalar", runtime::TensorType::kFloat32, {}, "1234"}};
  return {runtime::EncodeSafetensors(tensors, {{"format", "pt"}}),
          runtime::EncodeSafetensors({}, {})};
}

// Damage would never come past the hash, so the input is the document without it, and is signed
// here. What cannot be signed goes in as it is.
template <typename Decode, typename Encode>
Finding RunHashed(std::string_view bytes, const Decode& decode, const Encode& encode) {
  Result<Json> document = ParseJson(bytes);
  if (!document.ok() || !document->is_object()) {
    return RunRoundTrip(bytes, decode, encode);
  }
  document->erase("sha256");
  (*document)["sha256"] = Sha256Hex(DumpJson(*document));
  return RunRoundTrip(DumpJson(*document), decode, encode);
}

constexpr std::string_view kWriter = R"("jobUid":"uid","attempt":1,"epoch":2,"incarnation":3)";

Finding RunCheckpointManifest(std::string_view bytes) {
  return RunHashed(bytes, runtime::DecodeManifest, [](const runtime::Manifest& manifest) {
    return runtime::EncodeManifest(manifest);
  });
}

std::vector<std::string> CheckpointManifestSeeds() {
  return {
      R"({"formatVersion":1,)" + std::string(kWriter) +
          R"(,"step":7,"cursor":{"dataEpoch":1,"batchIndex":2,"samplesConsumed":96},"seed":-3,)"
          R"("worldSize":3,"tensors":{"file":"tensors.safetensors","bytes":1024,"sha256":"00ff"},)"
          R"("created":"2026-01-02T03:04:05Z"})",
      R"({"formatVersion":3,)" + std::string(kWriter) +
          R"(,"step":7,"cursor":{"dataEpoch":1,"position":null,"samplesConsumed":96},"seed":3,)"
          R"("worldSize":3,"fingerprint":{"seed":3},"epochSums":{"dataEpoch":1,"lossSum":0.5,)"
          R"("correctCount":1,"sampleCount":96},"lossScale":{"scale":1024,"goodSteps":7,)"
          R"("stepsSkipped":3},"isFinite":true,"tensors":{"file":"tensors.safetensors",)"
          R"("bytes":1024,"sha256":"00ff"},"created":"2026-01-02T03:04:05Z"})"};
}

Finding RunCheckpointFence(std::string_view bytes) {
  return RunHashed(bytes, runtime::DecodeFence, [](const runtime::Fence& fence) {
    return runtime::EncodeFence(fence);
  });
}

std::vector<std::string> CheckpointFenceSeeds() {
  return {"{" + std::string(kWriter) + "}",
          "{" + std::string(kWriter) + R"(,"shutOut":["uid-0","uid-9"]})"};
}

// --- Wire ---

// Each value has one encoding, so what is accepted must be what this rank would have sent.
Finding RunMeshFrame(std::string_view bytes) {
  const auto frame = runtime::DecodeFrame(bytes);
  if (!frame.ok()) {
    return Refused(frame.error());
  }
  return Accepted(runtime::EncodeFrame(*frame) == bytes ? "" : "accepted, but not as it was sent");
}

std::vector<std::string> MeshFrameSeeds() {
  runtime::Hello hello;
  hello.identity.job_uid = "uid";
  hello.identity.attempt = Attempt(1);
  hello.identity.rank = 1;
  hello.identity.world_size = 3;
  hello.identity.incarnation = Incarnation(2);
  hello.host_id = "host";
  runtime::MemberState state;
  state.epoch = Epoch(4);
  state.joined = true;
  state.agreement = 17;
  state.culprit.ended = Epoch(3);
  state.silent = {{2, Sight::kStarved}};
  return {
      runtime::EncodeFrame(
          runtime::HelloFrame{runtime::LinkKind::kData, hello, 2, Epoch(4), "nonce"}),
      runtime::EncodeFrame(runtime::ReplyFrame{hello, "nonce", "proof"}),
      runtime::EncodeFrame(runtime::ProofFrame{"proof"}),
      runtime::EncodeFrame(runtime::VerdictFrame{true, runtime::Refusal::kBusy, Epoch(4), "why"}),
      runtime::EncodeFrame(state),
      runtime::EncodeFrame(runtime::SupersededFrame{})};
}

constexpr std::array<Decoder, 5> kRuntimeDecoders = {{
    {"idx", RunIdx, IdxSeeds},
    {"safetensors", RunSafetensors, SafetensorsSeeds},
    {"checkpoint_manifest", RunCheckpointManifest, CheckpointManifestSeeds},
    {"checkpoint_fence", RunCheckpointFence, CheckpointFenceSeeds},
    {"mesh_frame", RunMeshFrame, MeshFrameSeeds},
}};

}  // namespace

std::span<const Decoder> RuntimeDecoders() {
  return kRuntimeDecoders;
}

}  // namespace lockstep::fuzz
