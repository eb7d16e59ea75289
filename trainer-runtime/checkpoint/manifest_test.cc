#include "trainer-runtime/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/digest.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

Manifest SampleManifest() {
  Manifest manifest;
  manifest.writer = {"uid-1", Attempt(1), Epoch(4), Incarnation(2)};
  manifest.step = Step(100);
  manifest.cursor = {1, 6, 9600};
  manifest.seed = -7;
  manifest.world_size = 3;
  manifest.fingerprint = R"({"data":{"samples":9000},"seed":7})";
  manifest.sums = {1, 12.5, 90, 96};
  manifest.tensors_file = "tensors.safetensors";
  manifest.tensors_bytes = 1234;
  manifest.tensors_sha256 = Sha256Hex("x");
  manifest.created = "2026-11-21T10:22:03.123Z";
  return manifest;
}

// The sample with `change` applied and the hash made right again.
template <typename Change>
std::string Changed(Change change) {
  Json object = ParseJson(EncodeManifest(SampleManifest())).value();
  object.erase("sha256");
  change(&object);
  object["sha256"] = Sha256Hex(DumpJson(object));
  return DumpJson(object);
}

TEST(Manifest, DecodesWhatItEncodes) {
  const Result<Manifest> manifest = DecodeManifest(EncodeManifest(SampleManifest()));
  ASSERT_TRUE(manifest.ok()) << manifest.error().ToString();
  EXPECT_EQ(*manifest, SampleManifest());
}

// As programs of their own have it: the hash is of the keys in this order, and stands among them.
TEST(Manifest, SortedKeysAreReadLikeOthers) {
  const std::string text = EncodeManifest(SampleManifest(), KeyOrder::kSorted);
  EXPECT_THAT(text, testing::StartsWith("{\n  \"attempt\": 1,\n  \"created\""));
  EXPECT_LT(text.find("\"seed\": -7"), text.find("sha256"));
  EXPECT_LT(text.find("\n  \"sha256\""), text.find("\n  \"step\""));
  EXPECT_EQ(DecodeManifest(text).value(), SampleManifest());
}

// What the first release wrote: no position, no fingerprint, no sums.
TEST(Manifest, FirstFormatIsRead) {
  const std::string text = Changed([](Json* m) {
    (*m)["formatVersion"] = 1;
    (*m)["cursor"].erase("position");
    (*m)["cursor"]["batchIndex"] = 6;
    for (const char* later : {"fingerprint", "epochSums", "isFinite"}) {
      m->erase(later);
    }
  });
  const Result<Manifest> manifest = DecodeManifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.error().ToString();
  EXPECT_EQ(manifest->cursor, (SavedCursor{1, std::nullopt, 9600}));
  EXPECT_EQ(manifest->fingerprint, "");
  EXPECT_TRUE(manifest->is_finite);
}

TEST(Manifest, LossThatIsNotFiniteIsAbsent) {
  Manifest manifest = SampleManifest();
  manifest.sums.loss_sum = std::nullopt;
  manifest.is_finite = false;
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest)).value(), manifest);
}

// Of a training in Float16; all others are written as before, for releases that know no scale.
TEST(Manifest, LossScaleIsKeptUnderAFormatOfItsOwn) {
  Manifest manifest = SampleManifest();
  manifest.loss_scale = LossScale{1024, 7, 3};
  EXPECT_EQ(DecodeManifest(EncodeManifest(manifest)).value(), manifest);
  EXPECT_EQ(ParseJson(EncodeManifest(manifest)).value().at("formatVersion"), 3);
  EXPECT_EQ(ParseJson(EncodeManifest(SampleManifest())).value().at("formatVersion"), 2);
  manifest.loss_scale->scale = 1000;
  EXPECT_THAT(DecodeManifest(EncodeManifest(manifest)).error().ToString(),
              HasSubstr("lossScale 1000 found, expected a power of two"));
}

TEST(Manifest, EveryFlippedByteIsNoticed) {
  const std::string good = EncodeManifest(SampleManifest());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    const Result<Manifest> manifest = DecodeManifest(bad);
    // White space may change: the content is then the same.
    EXPECT_TRUE(!manifest.ok() || *manifest == SampleManifest()) << "byte " << i;
    EXPECT_TRUE(!manifest.ok() || std::isspace(good[i]) != 0) << "byte " << i;
  }
}

TEST(Manifest, DefectsAreNamedByField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Changed([](Json* m) { (*m)["formatVersion"] = 4; }), "format version 4, expected 1 to 3"},
      {Changed([](Json* m) { (*m)["formatVersion"] = 0; }), "format version 0, expected 1 to 3"},
      {Changed([](Json* m) { (*m)["formatVersion"] = 3; }), "lossScale: missing"},
      {Changed([](Json* m) { (*m)["lossScale"] = Json::object(); }), "lossScale: unknown field"},
      {Changed([](Json* m) { m->erase("isFinite"); }), "isFinite: missing"},
      {Changed([](Json* m) { m->erase("epochSums"); }), "epochSums: missing"},
      {Changed([](Json* m) { (*m)["fingerprint"] = 3; }), "fingerprint: 3 found"},
      {Changed([](Json* m) { m->erase("step"); }), "step: missing"},
      {Changed([](Json* m) { (*m)["step"] = -1; }), "step: -1 found"},
      {Changed([](Json* m) { (*m)["extra"] = 1; }), "extra"},
      {Changed([](Json* m) { (*m)["cursor"].erase("dataEpoch"); }), "cursor.dataEpoch: missing"},
      {Changed([](Json* m) { (*m)["cursor"]["batchIndex"] = 1; }), "cursor.batchIndex"},
      {Changed([](Json* m) { (*m)["cursor"] = "x"; }), "cursor: \"x\" found, expected an object"},
      {Changed([](Json* m) { (*m)["tensors"]["file"] = "../../etc/passwd"; }), "tensors.file"},
      {Changed([](Json* m) { (*m)["worldSize"] = 1LL << 40; }), "worldSize"},
      {"{}", "the field sha256 is missing"},
      {"[1]", "the field sha256 is missing"},
      {"{\"sha256\": 1}", "expected 1"},
      {"", "not JSON"},
  };
  for (const auto& [text, says] : cases) {
    const Result<Manifest> manifest = DecodeManifest(text);
    ASSERT_FALSE(manifest.ok()) << text;
    EXPECT_THAT(manifest.error().ToString(), HasSubstr(says));
  }
}

TEST(Fence, DecodesWhatItEncodes) {
  for (const std::vector<std::string>& shut_out :
       {std::vector<std::string>(), std::vector<std::string>{"uid-0", "uid-9"}}) {
    const Fence fence{{"uid-1", Attempt(1), Epoch(4), Incarnation(2)}, shut_out};
    const Result<Fence> decoded = DecodeFence(EncodeFence(fence));
    ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
    EXPECT_EQ(*decoded, fence);
  }
  EXPECT_FALSE(DecodeFence("{}").ok());
}

}  // namespace
}  // namespace lockstep::runtime
