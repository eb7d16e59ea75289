#include "common/contract/training/state_fingerprint.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "common/contract/environment/topology.h"

namespace lockstep {
namespace {

constexpr const char* kBatchSizeKey = "globalBatchSize";

// Differences told in one error: enough to see what was edited, short enough to read. Choice.
constexpr int kDifferencesToldMax = 5;

// "/model/layers/0/units" as people write it: "spec.training.model.layers[0].units".
std::string FieldName(std::string_view pointer) {
  const std::string_view first = pointer.substr(1, pointer.find('/', 1) - 1);
  std::string name = first == kFingerprintDataKey ? "" : "spec.training";
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string_view part = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(part.size());
    const bool is_index = part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_index) {
      name += "[" + std::string(part) + "]";
    } else {
      name += (name.empty() ? "" : ".") + std::string(part);
    }
  }
  return name;
}

// Of the samples' part "r of N" the N; empty where it reads otherwise.
std::string RankCountOf(const Json& part) {
  constexpr std::string_view kOf = " of ";
  const std::string text = part.is_string() ? part.get<std::string>() : "";
  const std::size_t at = text.find(kOf);
  return at == std::string::npos ? "" : text.substr(at + kOf.size());
}

// Names one difference, for a message. `now` is null if the field is missing.
std::string DescribeDifference(const std::string& pointer, const Json& before, const Json& now) {
  const std::string ranks_before = RankCountOf(before);
  const std::string ranks_now = RankCountOf(now);
  const bool is_of_ranks = pointer == "/" + std::string(kFingerprintDataKey) + "/part" &&
                           !ranks_before.empty() && !ranks_now.empty() && ranks_before != ranks_now;
  return is_of_ranks ? "number of ranks: " + ranks_now + " found, the saved state was made with " +
                           ranks_before
                     : FieldName(pointer) + ": " + (now.is_null() ? "nothing" : DescribeJson(now)) +
                           " found, the saved state was made with " + DescribeJson(before);
}

// Of rank r's model, whose part of the samples is "r of N", the seed that the job was given: what
// SpecOfModel added is nobody's to know.
void TellSeedOfJob(Json* fingerprint) {
  const auto data = fingerprint->find(kFingerprintDataKey);
  const auto seed = fingerprint->find("seed");
  if (data == fingerprint->end() || !data->is_object() || !data->contains("part") ||
      !data->at("part").is_string() || seed == fingerprint->end() || !seed->is_number_integer()) {
    return;
  }
  const auto part = data->at("part").get<std::string>();
  int64_t rank = 0;
  std::from_chars(part.data(), part.data() + part.size(), rank);
  const auto model_seed = seed->get<int64_t>();
  if (rank < 0 || rank >= kModelsMax || model_seed < 0) {
    return;  // we did not write it
  }
  // Above the largest integer SpecOfModel goes on from 0.
  *seed = model_seed >= rank ? model_seed - rank
                             : std::numeric_limits<int64_t>::max() - (rank - model_seed - 1);
}

}  // namespace

Json FingerprintOf(const TrainingSpec& spec) {
  const Json whole = EncodeTrainingSpec(spec);
  Json fingerprint = Json::object();
  for (const char* key : {"seed", kBatchSizeKey, "remainder", "model", "loss"}) {
    fingerprint[key] = whole.at(key);
  }
  // Layers that hold no tensor, added at the end, would show nowhere else.
  fingerprint["model"]["layerCount"] = spec.model.layers.size();
  fingerprint["optimizer"] = {{"type", whole.at("optimizer").at("type")}};
  fingerprint["dataset"] = {{"scale", spec.dataset.scale}, {"shuffle", spec.dataset.shuffle}};
  return fingerprint;
}

TrainingSpec SpecOfModel(TrainingSpec spec, int rank) {
  const uint64_t sum = static_cast<uint64_t>(spec.seed) + static_cast<uint64_t>(rank);
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  spec.seed = static_cast<int64_t>(sum > kLargest ? sum - kLargest - 1 : sum);
  return spec;
}

Status CompareFingerprints(const std::string& saved, const std::string& mine) {
  if (saved.empty()) {
    return OkStatus();
  }
  Result<Json> parsed = ParseJson(saved);
  if (!parsed.ok() || !parsed->is_object()) {
    return Error(ErrorCode::kCorrupt, "the saved state's fingerprint is not a JSON object");
  }
  parsed->erase(kBatchSizeKey);
  LOCKSTEP_ASSIGN_OR_RETURN(Json current, ParseJson(mine));
  TellSeedOfJob(&*parsed);
  TellSeedOfJob(&current);
  const Json before = parsed->flatten();
  const Json now = current.flatten();
  std::string differences;
  int count = 0;
  for (const auto& [pointer, value] : before.items()) {
    const bool is_there = now.contains(pointer);
    if (is_there && now.at(pointer) == value) {
      continue;
    }
    ++count;
    if (count <= kDifferencesToldMax) {
      differences += (count > 1 ? "; " : "") +
                     DescribeDifference(pointer, value, is_there ? now.at(pointer) : Json());
    }
  }
  if (count == 0) {
    return OkStatus();
  }
  if (count > kDifferencesToldMax) {
    differences += "; and " + std::to_string(count - kDifferencesToldMax) + " more";
  }
  return Error(ErrorCode::kInvalidArgument, differences);
}

}  // namespace lockstep
