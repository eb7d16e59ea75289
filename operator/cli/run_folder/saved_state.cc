#include "operator/cli/run_folder/saved_state.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "common/base/io/file.h"
#include "common/contract/hashed_document.h"
#include "common/contract/training/state_fingerprint.h"
#include "operator/cli/run_folder/checkpoint_folder.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kCheckpointManifestBytesMax = 1 << 20;  // as the trainer has it

// Without what only who has read the samples can compare. Null: there is none to compare.
Json SavedFingerprint(const std::string& checkpoint) {
  const auto text = ReadRegularFile(checkpoint + "/manifest.json", kCheckpointManifestBytesMax);
  auto manifest = text.ok() ? ParseHashed(*text, checkpoint) : Result<Json>(text.error());
  if (!manifest.ok() || !manifest->contains("fingerprint") ||
      !manifest->at("fingerprint").is_object()) {
    return nullptr;
  }
  Json fingerprint = manifest->at("fingerprint");
  Json data = Json::object();
  if (const auto part = fingerprint.find(kFingerprintDataKey);
      part != fingerprint.end() && part->is_object() && part->contains("part")) {
    data["part"] = part->at("part");
  }
  fingerprint.erase(kFingerprintDataKey);
  if (!data.empty()) {
    fingerprint[kFingerprintDataKey] = std::move(data);
  }
  return fingerprint;
}

// What the rank would put into it, the samples aside.
Json FingerprintFor(const FoundCheckpoint& checkpoint, const TrainingJob& job) {
  const TrainingSpec& spec = *job.spec.training;
  if (!checkpoint.rank) {
    return FingerprintOf(spec);
  }
  Json fingerprint = FingerprintOf(SpecOfModel(spec, static_cast<int>(*checkpoint.rank)));
  fingerprint[kFingerprintDataKey]["part"] =
      std::to_string(*checkpoint.rank) + " of " + std::to_string(job.WorldSize());
  return fingerprint;
}

}  // namespace

Status CheckSavedState(const TrainingJob& job, const std::string& folder) {
  const auto found = NewestCheckpointsIn(folder);
  if (!found.ok() || !job.spec.training) {
    return OkStatus();
  }
  const bool has_model_of_each = job.spec.training->variables == VariablePlacement::kIndependent;
  for (const FoundCheckpoint& checkpoint : *found) {
    Json saved = SavedFingerprint(checkpoint.folder);
    if (checkpoint.rank.has_value() != has_model_of_each) {
      return Error(
          ErrorCode::kInvalidArgument,
          checkpoint.folder + ": " + kStateDoesNotFit +
              (has_model_of_each
                   ? ": spec.strategy: Independent found, expected a different strategy: the "
                     "checkpoint holds one model for all ranks"
                   : ": spec.strategy: " + std::string(StrategyName(job.spec.strategy)) +
                         " found, expected Independent: the checkpoint holds the model of one "
                         "rank"));
    }
    if (saved.is_null()) {
      continue;
    }
    if (checkpoint.rank && !saved.contains(kFingerprintDataKey)) {
      saved[kFingerprintDataKey]["part"] = "0 of 1";  // who is alone has no part
    }
    const Json mine = FingerprintFor(checkpoint, job);
    const Status fits = CompareFingerprints(DumpJson(saved), DumpJson(mine));
    if (!fits.ok() && fits.error().code() == ErrorCode::kInvalidArgument) {
      return Error(ErrorCode::kInvalidArgument,
                   checkpoint.folder + ": " + kStateDoesNotFit + ": " + fits.error().message());
    }
  }
  return OkStatus();
}

}  // namespace lockstep::control
