#include "trainer-runtime/checkpoint/manifest.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kShutOutKey = "shutOut";  // of a fence; absent where it would be empty

// Names of fields that only version 2 has.
constexpr const char* kFingerprintKey = "fingerprint";
constexpr const char* kSumsKey = "epochSums";
constexpr const char* kFiniteKey = "isFinite";

// And one that only version 3 has.
constexpr const char* kLossScaleKey = "lossScale";
constexpr int kVersionWithoutScale = 2;

void AddWriter(const WriterIdentity& writer, Json* object) {
  (*object)["jobUid"] = writer.job_uid;
  (*object)["attempt"] = writer.attempt.value();
  (*object)["epoch"] = writer.epoch.value();
  (*object)["incarnation"] = writer.incarnation.value();
}

// Reads required members; what is missing or wrong is recorded by the reader and comes back empty.
class RequiredFields {
 public:
  RequiredFields(const Json& value, const std::string& path, std::vector<Error>* errors)
      : reader_(value, path, errors) {}

  int64_t Count(std::string_view key) {
    reader_.Require(key, "a whole number");
    return reader_.Int(key, 0).value_or(0);
  }

  int64_t Int(std::string_view key) {
    reader_.Require(key, "a whole number");
    return reader_.Int(key).value_or(0);
  }

  std::string String(std::string_view key) {
    reader_.Require(key, "a string");
    return reader_.String(key).value_or("");
  }

  std::optional<int64_t> OptionalCount(std::string_view key) { return reader_.Int(key, 0); }

  std::optional<double> OptionalNumber(std::string_view key) { return reader_.Number(key); }

  bool Bool(std::string_view key) {
    reader_.Require(key, "true or false");
    return reader_.Bool(key).value_or(true);
  }

  // The object under `key` as text; empty where it is absent or null.
  std::string ObjectText(std::string_view key) {
    const Json* value = reader_.Find(key);
    if (value == nullptr) {
      return "";
    }
    if (!value->is_object()) {
      reader_.Fail(key, DescribeJson(*value) + " found, expected an object");
    }
    return DumpJson(*value);
  }

  std::vector<std::string> Strings(std::string_view key) { return reader_.Strings(key); }

  Json Object(std::string_view key) {
    const Json* value = reader_.Require(key, "an object");
    return value == nullptr ? Json::object() : *value;
  }

  WriterIdentity Writer() {
    WriterIdentity writer;
    writer.job_uid = String("jobUid");
    writer.attempt = Attempt(Count("attempt"));
    writer.epoch = Epoch(Count("epoch"));
    writer.incarnation = Incarnation(Count("incarnation"));
    return writer;
  }

  void Finish() { reader_.Finish(); }

 private:
  ObjectReader reader_;
};

SavedCursor ReadCursor(const Json& object, int64_t version, std::vector<Error>* errors) {
  RequiredFields fields(object, "cursor", errors);
  SavedCursor cursor;
  cursor.data_epoch = fields.Count("dataEpoch");
  if (version == kManifestVersionOldest) {
    fields.Count("batchIndex");  // in batches of a size that is not told, so of no use
  } else {
    cursor.position = fields.OptionalCount("position");
  }
  cursor.samples_consumed = fields.Count("samplesConsumed");
  fields.Finish();
  return cursor;
}

SavedSums ReadSums(const Json& object, std::vector<Error>* errors) {
  RequiredFields fields(object, kSumsKey, errors);
  SavedSums sums;
  sums.data_epoch = fields.Count("dataEpoch");
  sums.loss_sum = fields.OptionalNumber("lossSum");
  sums.correct_count = fields.Count("correctCount");
  sums.sample_count = fields.Count("sampleCount");
  fields.Finish();
  return sums;
}

LossScale ReadLossScale(const Json& object, std::vector<Error>* errors) {
  RequiredFields fields(object, kLossScaleKey, errors);
  const LossScale scale{
      fields.Count("scale"), fields.Count("goodSteps"), fields.Count("stepsSkipped")};
  fields.Finish();
  if (!IsSound(scale)) {
    errors->emplace_back(ErrorCode::kCorrupt,
                         std::string(kLossScaleKey) + " " + std::to_string(scale.scale) +
                             " found, expected a power of two up to " +
                             std::to_string(kLossScaleMax));
  }
  return scale;
}

template <typename Number>
Json OrNull(const std::optional<Number>& number) {
  return number.has_value() ? Json(*number) : Json(nullptr);
}

Json FingerprintObject(const std::string& fingerprint) {
  if (fingerprint.empty()) {
    return nullptr;
  }
  Result<Json> object = ParseJson(fingerprint);
  LOCKSTEP_CHECK(object.ok() && object->is_object(), "fingerprint is " + fingerprint);
  return std::move(object).value();
}

}  // namespace

std::string EncodeManifest(const Manifest& manifest, KeyOrder order) {
  Json object = Json::object();
  object["formatVersion"] = manifest.loss_scale ? kManifestVersion : kVersionWithoutScale;
  AddWriter(manifest.writer, &object);
  object["step"] = manifest.step.value();
  object["cursor"] = {{"dataEpoch", manifest.cursor.data_epoch},
                      {"position", OrNull(manifest.cursor.position)},
                      {"samplesConsumed", manifest.cursor.samples_consumed}};
  object["seed"] = manifest.seed;
  object["worldSize"] = manifest.world_size;
  object[kFingerprintKey] = FingerprintObject(manifest.fingerprint);
  object[kSumsKey] = {{"dataEpoch", manifest.sums.data_epoch},
                      {"lossSum", OrNull(manifest.sums.loss_sum)},
                      {"correctCount", manifest.sums.correct_count},
                      {"sampleCount", manifest.sums.sample_count}};
  if (manifest.loss_scale) {
    object[kLossScaleKey] = {{"scale", manifest.loss_scale->scale},
                             {"goodSteps", manifest.loss_scale->good_steps},
                             {"stepsSkipped", manifest.loss_scale->steps_skipped}};
  }
  object[kFiniteKey] = manifest.is_finite;
  object["tensors"] = {{"file", manifest.tensors_file},
                       {"bytes", manifest.tensors_bytes},
                       {"sha256", manifest.tensors_sha256}};
  object["created"] = manifest.created;
  return DumpHashed(std::move(object), order);
}

Result<Manifest> DecodeManifest(std::string_view text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json object, ParseHashed(text, "manifest"));
  std::vector<Error> errors;
  RequiredFields fields(object, "", &errors);
  const int64_t version = fields.Count("formatVersion");
  if (errors.empty() && (version < kManifestVersionOldest || version > kManifestVersion)) {
    return Error(ErrorCode::kMismatch,
                 "manifest: format version " + std::to_string(version) + ", expected " +
                     std::to_string(kManifestVersionOldest) + " to " +
                     std::to_string(kManifestVersion) + ": it was written by a later release");
  }
  const bool is_first_format = version == kManifestVersionOldest;
  Manifest manifest;
  manifest.writer = fields.Writer();
  manifest.step = Step(fields.Count("step"));
  manifest.seed = fields.Int("seed");
  const int64_t world_size = fields.Count("worldSize");
  manifest.created = fields.String("created");
  const Json cursor_object = fields.Object("cursor");
  const Json tensors_object = fields.Object("tensors");
  if (!is_first_format) {
    manifest.fingerprint = fields.ObjectText(kFingerprintKey);
    manifest.is_finite = fields.Bool(kFiniteKey);
    manifest.sums = ReadSums(fields.Object(kSumsKey), &errors);
  }
  if (version == kManifestVersion) {
    manifest.loss_scale = ReadLossScale(fields.Object(kLossScaleKey), &errors);
  }
  fields.Finish();
  manifest.cursor = ReadCursor(cursor_object, version, &errors);

  RequiredFields tensors(tensors_object, "tensors", &errors);
  manifest.tensors_file = tensors.String("file");
  manifest.tensors_bytes = static_cast<std::size_t>(tensors.Count("bytes"));
  manifest.tensors_sha256 = tensors.String("sha256");
  tensors.Finish();

  if (world_size > std::numeric_limits<int>::max() ||
      manifest.tensors_file.find('/') != std::string::npos) {
    errors.emplace_back(ErrorCode::kCorrupt, "worldSize or tensors.file is out of range");
  }
  if (!errors.empty()) {
    return Error(ErrorCode::kCorrupt, "manifest: " + errors.front().ToString());
  }
  manifest.world_size = static_cast<int>(world_size);
  return manifest;
}

std::string EncodeFence(const Fence& fence, KeyOrder order) {
  Json object = Json::object();
  AddWriter(fence.writer, &object);
  if (!fence.shut_out.empty()) {
    object[kShutOutKey] = fence.shut_out;
  }
  return DumpHashed(std::move(object), order);
}

Result<Fence> DecodeFence(std::string_view text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json object, ParseHashed(text, "fence"));
  std::vector<Error> errors;
  RequiredFields fields(object, "", &errors);
  Fence fence;
  fence.writer = fields.Writer();
  fence.shut_out = fields.Strings(kShutOutKey);
  fields.Finish();
  if (!errors.empty()) {
    return Error(ErrorCode::kCorrupt, "fence: " + errors.front().ToString());
  }
  return fence;
}

}  // namespace lockstep::runtime
