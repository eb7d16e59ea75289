#include "trainer-runtime/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/digest.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

Manifest Sample() {
  Manifest manifest;
  manifest.writer = {"uid-1", Attempt(1), Epoch(4), Incarnation(2)};
  manifest.step = Step(100);
  manifest.cursor = {1, 6, 9600};
  manifest.seed = -7;
  manifest.world_size = 3;
  manifest.tensors_file = "tensors.safetensors";
  manifest.tensors_bytes = 1234;
  manifest.tensors_sha256 = Sha256Hex("x");
  manifest.created = "2026-11-21T10:22:03.123Z";
  return manifest;
}

// The sample with `change` applied and the hash made right again.
template <typename Change>
std::string Changed(Change change) {
  Json object = ParseJson(EncodeManifest(Sample())).value();
  object.erase("sha256");
  change(&object);
  object["sha256"] = Sha256Hex(DumpJson(object));
  return DumpJson(object);
}

TEST(Manifest, DecodesWhatItEncodes) {
  const Result<Manifest> manifest = DecodeManifest(EncodeManifest(Sample()));
  ASSERT_TRUE(manifest.ok()) << manifest.error().ToString();
  EXPECT_EQ(*manifest, Sample());
}

TEST(Manifest, EveryFlippedByteIsNoticed) {
  const std::string good = EncodeManifest(Sample());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    const Result<Manifest> manifest = DecodeManifest(bad);
    // White space may change: the content is then the same.
    EXPECT_TRUE(!manifest.ok() || *manifest == Sample()) << "byte " << i;
    EXPECT_TRUE(!manifest.ok() || std::isspace(good[i]) != 0) << "byte " << i;
  }
}

TEST(Manifest, DefectsAreNamedByField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Changed([](Json* m) { (*m)["formatVersion"] = 2; }), "format version 2, expected 1"},
      {Changed([](Json* m) { m->erase("step"); }), "step: missing"},
      {Changed([](Json* m) { (*m)["step"] = -1; }), "step: -1 found"},
      {Changed([](Json* m) { (*m)["extra"] = 1; }), "extra"},
      {Changed([](Json* m) { (*m)["cursor"].erase("batchIndex"); }), "cursor.batchIndex: missing"},
      {Changed([](Json* m) { (*m)["cursor"] = "x"; }), "cursor: \"x\" found, expected an object"},
      {Changed([](Json* m) { (*m)["tensors"]["file"] = "../../etc/passwd"; }), "tensors.file"},
      {Changed([](Json* m) { (*m)["worldSize"] = 1LL << 40; }), "worldSize"},
      {"{}", "no sha256"},
      {"[1]", "no sha256"},
      {"{\"sha256\": 1}", "its hash is 1"},
      {"", "not valid JSON"},
  };
  for (const auto& [text, says] : cases) {
    const Result<Manifest> manifest = DecodeManifest(text);
    ASSERT_FALSE(manifest.ok()) << text;
    EXPECT_THAT(manifest.error().ToString(), HasSubstr(says));
  }
}

TEST(Fence, DecodesWhatItEncodes) {
  const WriterIdentity writer{"uid-1", Attempt(1), Epoch(4), Incarnation(2)};
  const Result<WriterIdentity> decoded = DecodeFence(EncodeFence(writer));
  ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
  EXPECT_EQ(*decoded, writer);
  EXPECT_FALSE(DecodeFence("{}").ok());
}

}  // namespace
}  // namespace lockstep::runtime
