#include "trainer-runtime/train/training_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "common/contract/training/training_spec.h"
#include "common/json/json.h"
#include "trainer-runtime/strategy/finite.h"

namespace lockstep::runtime {
namespace {

Status CheckTensor(const NamedTensor& saved, const TensorView& expected) {
  if (saved.name == expected.name && saved.shape == expected.shape) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               "the saved state has tensor " + saved.name + " " + FormatShape(saved.shape) +
                   " where this model has " + expected.name + " " + FormatShape(expected.shape));
}

Json EncodeLossScale(const std::optional<LossScale>& scale) {
  if (!scale.has_value()) {
    return nullptr;
  }
  return {{"scale", scale->scale},
          {"goodSteps", scale->good_steps},
          {"stepsSkipped", scale->steps_skipped}};
}

std::optional<LossScale> DecodeLossScale(const Json* value, std::vector<Error>* errors) {
  if (value == nullptr) {
    return std::nullopt;
  }
  ObjectReader reader(*value, "lossScale", errors);
  const LossScale scale{reader.RequireInt("scale", 1),
                        reader.RequireInt("goodSteps", 0),
                        reader.RequireInt("stepsSkipped", 0)};
  if (!IsSound(scale)) {
    reader.Fail("scale", std::to_string(scale.scale) + " found, expected a power of two");
  }
  return scale;
}

Json EncodeHeader(const Snapshot& snapshot) {
  Json tensors = Json::array();
  for (const NamedTensor& tensor : snapshot.tensors) {
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  return {{"step", snapshot.step.value()},
          {"dataEpoch", snapshot.cursor.data_epoch},
          {"position", snapshot.cursor.position.value_or(0)},
          {"samplesConsumed", snapshot.cursor.samples_consumed},
          {"seed", snapshot.seed},
          {"worldSize", snapshot.world_size},
          {"fingerprint", snapshot.fingerprint},
          {"sumsEpoch", snapshot.sums.data_epoch},
          {"lossSum",
           snapshot.sums.loss_sum.has_value() ? Json(*snapshot.sums.loss_sum) : Json(nullptr)},
          {"correctCount", snapshot.sums.correct_count},
          {"sampleCount", snapshot.sums.sample_count},
          {"lossScale", EncodeLossScale(snapshot.loss_scale)},
          {"ledgerBytes", snapshot.ledger.size()},
          {"tensors", std::move(tensors)}};
}

// Takes the next `byte_count` bytes off `rest`; false when there are fewer.
bool TakeBytes(std::string_view* rest, std::size_t byte_count, std::string_view* taken) {
  if (rest->size() < byte_count) {
    return false;
  }
  *taken = rest->substr(0, byte_count);
  rest->remove_prefix(byte_count);
  return true;
}

Result<NamedTensor> DecodeTensor(const Json& header) {
  std::vector<Error> errors;
  ObjectReader reader(header, "tensor", &errors);
  NamedTensor tensor;
  tensor.name = reader.String("name").value_or("");
  for (const Json* extent : reader.List("shape")) {
    if (!extent->is_number_integer()) {
      return Error(ErrorCode::kCorrupt, "tensor " + tensor.name + " has an impossible shape");
    }
    tensor.shape.push_back(extent->get<int64_t>());
  }
  return errors.empty() ? Result<NamedTensor>(std::move(tensor))
                        : Error(ErrorCode::kCorrupt, errors.front().ToString());
}

Result<Snapshot> DecodeBody(const Json& header, std::string_view rest) {
  std::vector<Error> errors;
  ObjectReader reader(header, "state", &errors);
  Snapshot snapshot;
  snapshot.step = Step(reader.Int("step", 0).value_or(0));
  snapshot.cursor.data_epoch = reader.Int("dataEpoch", 0).value_or(0);
  snapshot.cursor.position = reader.Int("position", 0).value_or(0);
  snapshot.cursor.samples_consumed = reader.Int("samplesConsumed", 0).value_or(0);
  snapshot.seed = reader.Int("seed").value_or(0);
  snapshot.world_size = static_cast<int>(reader.Int("worldSize", 1, 1 << 20).value_or(1));
  snapshot.fingerprint = reader.String("fingerprint").value_or("");
  snapshot.sums.data_epoch = reader.Int("sumsEpoch", 0).value_or(0);
  snapshot.sums.loss_sum = reader.Number("lossSum");
  snapshot.sums.correct_count = reader.Int("correctCount", 0).value_or(0);
  snapshot.sums.sample_count = reader.Int("sampleCount", 0).value_or(0);
  snapshot.loss_scale = DecodeLossScale(reader.Find("lossScale"), &errors);
  const auto ledger_bytes = static_cast<std::size_t>(reader.Int("ledgerBytes", 0).value_or(0));
  std::string_view ledger;
  if (!TakeBytes(&rest, ledger_bytes, &ledger)) {
    return Error(ErrorCode::kCorrupt, "the state ends within its ledger");
  }
  snapshot.ledger = ledger;
  for (const Json* tensor : reader.List("tensors")) {
    LOCKSTEP_ASSIGN_OR_RETURN(NamedTensor decoded, DecodeTensor(*tensor));
    snapshot.tensors.push_back(std::move(decoded));
  }
  if (!errors.empty() || !rest.empty()) {
    return Error(
        ErrorCode::kCorrupt,
        errors.empty() ? "the state is followed by extra bytes" : errors.front().ToString());
  }
  return snapshot;
}

}  // namespace

Snapshot TakeSnapshotHead(const TrainingState& state,
                          const std::vector<TensorView>& tensors,
                          const SnapshotFacts& facts) {
  Snapshot snapshot;
  snapshot.step = state.step;
  snapshot.cursor = {state.cursor.data_epoch, state.cursor.position, state.cursor.samples_consumed};
  snapshot.seed = facts.seed;
  snapshot.world_size = facts.world_size;
  snapshot.fingerprint = facts.fingerprint;
  snapshot.sums = {
      state.sums.data_epoch,
      std::isfinite(state.sums.loss_sum) ? std::optional(state.sums.loss_sum) : std::nullopt,
      state.sums.correct_count,
      state.sums.sample_count};
  snapshot.loss_scale = state.loss_scale;
  snapshot.ledger = state.ledger.Serialize();
  for (const TensorView& view : tensors) {
    snapshot.tensors.push_back({view.name, view.shape, {}});
  }
  return snapshot;
}

Snapshot TakeSnapshot(const TrainingState& state,
                      const std::vector<TensorView>& tensors,
                      const SnapshotFacts& facts) {
  Snapshot snapshot = TakeSnapshotHead(state, tensors, facts);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const float> values = tensors[i].data;
    snapshot.is_finite = snapshot.is_finite && AllFinite(values);
    snapshot.tensors[i].values.assign(values.begin(), values.end());
  }
  return snapshot;
}

Status RestoreState(const Snapshot& snapshot,
                    int64_t seed,
                    const std::vector<TensorView>& tensors,
                    TrainingState* state) {
  if (snapshot.seed != seed) {
    return Error(ErrorCode::kInvalidArgument,
                 "the saved state was made with seed " + std::to_string(snapshot.seed) +
                     ", this job has seed " + std::to_string(seed));
  }
  if (tensors.size() != snapshot.tensors.size()) {
    return Error(ErrorCode::kInvalidArgument,
                 "the saved state has " + std::to_string(snapshot.tensors.size()) +
                     " tensors, this model has " + std::to_string(tensors.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(CheckTensor(snapshot.tensors[i], tensors[i]));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(SampleLedger ledger, SampleLedger::Deserialize(snapshot.ledger));
  if (ledger.sample_count() != state->ledger.sample_count()) {
    return Error(ErrorCode::kInvalidArgument,
                 "the saved state counts " + std::to_string(ledger.sample_count()) +
                     " training samples, this data set has " +
                     std::to_string(state->ledger.sample_count()));
  }
  // The first format does not tell the position; whoever was used since the epoch began, does.
  const int64_t position = snapshot.cursor.position.value_or(ledger.open_count());
  state->ledger = std::move(ledger);
  state->step = snapshot.step;
  state->cursor = {snapshot.cursor.data_epoch, position, snapshot.cursor.samples_consumed};
  state->sums = {snapshot.sums.data_epoch,
                 snapshot.sums.loss_sum.value_or(std::numeric_limits<double>::quiet_NaN()),
                 snapshot.sums.correct_count,
                 snapshot.sums.sample_count};
  state->loss_scale = snapshot.loss_scale;
  state->is_established = true;
  return OkStatus();
}

Status RestoreTensors(const Snapshot& snapshot, const std::vector<TensorView>& tensors) {
  LOCKSTEP_CHECK(snapshot.tensors.size() == tensors.size(), "not a snapshot of this model");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (snapshot.tensors[i].values.size() != tensors[i].data.size()) {
      return Error(ErrorCode::kInvalidArgument,
                   "the saved state has " + std::to_string(snapshot.tensors[i].values.size()) +
                       " values for tensor " + tensors[i].name + ", but the tensor's shape has " +
                       std::to_string(tensors[i].data.size()));
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<float>& values = snapshot.tensors[i].values;
    std::copy(values.begin(), values.end(), tensors[i].data.begin());
  }
  return OkStatus();
}

Status CheckCursor(const TrainingState& state, BatchLoader* loader) {
  const DataCursor& cursor = state.cursor;
  if (cursor.position > loader->plan().sample_count) {
    return Error(ErrorCode::kInvalidArgument,
                 "the saved state continues at sample " + std::to_string(cursor.position) +
                     " of its data epoch, but this data set has only " +
                     std::to_string(loader->plan().sample_count));
  }
  const SampleTotals& closed = state.ledger.totals();
  const SampleTotals open =
      state.ledger.TotalsIfClosed(loader->ExpectedIds(cursor.data_epoch, cursor.position));
  if (open.lost == closed.lost && open.repeated == closed.repeated) {
    return OkStatus();
  }
  return Error(ErrorCode::kInvalidArgument,
               "the state was saved with other data or another dataset.shuffle: to continue data "
               "epoch " +
                   std::to_string(cursor.data_epoch) + " would lose " +
                   std::to_string(open.lost - closed.lost) + " samples and repeat " +
                   std::to_string(open.repeated - closed.repeated) +
                   ". Set the data and dataset.shuffle as they were when the state was saved");
}

// Layout: 8 bytes length of the header, the header as JSON, the ledger.
std::string EncodeSnapshotHead(const Snapshot& snapshot) {
  const std::string header = DumpJson(EncodeHeader(snapshot));
  const uint64_t header_size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&header_size), sizeof(header_size));
  bytes += header;
  bytes += snapshot.ledger;
  return bytes;
}

Result<Snapshot> DecodeSnapshotHead(const std::string& bytes) {
  std::string_view rest = bytes;
  std::string_view length;
  std::string_view header;
  uint64_t header_size = 0;
  if (!TakeBytes(&rest, sizeof(header_size), &length)) {
    return Error(ErrorCode::kCorrupt, "the state is too short to hold its length field");
  }
  std::memcpy(&header_size, length.data(), length.size());
  if (!TakeBytes(&rest, header_size, &header)) {
    return Error(ErrorCode::kCorrupt, "the state ends within its header");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Json parsed, ParseJson(header));
  return DecodeBody(parsed, rest);
}

}  // namespace lockstep::runtime
