#include "operator/api/training_queue.h"

#include <string_view>

#include "common/base/quantity.h"
#include "common/contract/problems.h"
#include "common/json/enum_names.h"
#include "operator/api/fields.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {
namespace {

constexpr int64_t kWeightMax = 1'000'000;  // choice: shares are counted in millionths

constexpr EnumNames<QueueOrder, 2> kQueueOrderNames = {{
    {QueueOrder::kFifo, "FIFO"},
    {QueueOrder::kFairShare, "FairShare"},
}};

QueueAmounts ReadAmounts(ObjectReader& reader, std::string_view key, std::vector<Error>* errors) {
  QueueAmounts amounts;
  const Json* const object = reader.Find(key);
  if (object == nullptr) {
    return amounts;
  }
  if (!object->is_object()) {
    reader.Fail(key, "expected amounts by resource, such as {nvidia.com/gpu: 16}");
    return amounts;
  }
  for (const auto& [name, value] : object->items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : DumpJson(value);
    const Result<int64_t> amount = ParseQuantity(
        text, name == kCpuResource ? QuantityUnit::kThousandths : QuantityUnit::kOnes);
    if (amount.ok()) {
      amounts[name] = *amount;
    } else {
      AddError(errors,
               reader.PathOf(key) + "." + name,
               Quoted(text) + " found, expected " + amount.error().message());
    }
  }
  return amounts;
}

}  // namespace

DecodedQueue DecodeTrainingQueue(const Json& document) {
  DecodedQueue decoded;
  TrainingQueue& queue = decoded.queue;
  std::vector<Error> ignored;
  ObjectReader object(document, "", &ignored);
  if (const Json* metadata = object.Find("metadata")) {
    ObjectReader reader(*metadata, "metadata", &ignored);
    queue.name = reader.String("name").value_or("");
  }
  const Json* const spec = object.Find("spec");
  if (spec == nullptr) {
    return decoded;
  }
  ObjectReader reader(*spec, "spec", &decoded.errors);
  queue.parent = ReadText(reader, "parent");
  queue.nominal = ReadAmounts(reader, "nominal", &decoded.errors);
  queue.borrowing_limit = ReadAmounts(reader, "borrowingLimit", &decoded.errors);
  queue.lending_limit = ReadAmounts(reader, "lendingLimit", &decoded.errors);
  queue.weight = reader.Int("weight", 1, kWeightMax).value_or(1);
  queue.order = ReadEnum(reader, "ordering", kQueueOrderNames).value_or(queue.order);
  reader.Finish();
  return decoded;
}

}  // namespace lockstep::control
