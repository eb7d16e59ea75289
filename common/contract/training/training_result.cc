#include "common/contract/training/training_result.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "common/contract/environment/topology.h"

namespace lockstep {
namespace {

using ModelNumber = std::optional<double> ModelResult::*;

struct ModelColumn {
  const char* key;
  ModelNumber number;
};

constexpr std::array<ModelColumn, 3> kModelColumns = {{
    {"trainingLoss", &ModelResult::training_loss},
    {"testLoss", &ModelResult::test_loss},
    {"testAccuracy", &ModelResult::test_accuracy},
}};

// In six digits; absent where it is not a finite number then.
std::optional<double> Shorten(const std::optional<double>& number) {
  if (!number.has_value()) {
    return std::nullopt;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", *number);
  const double rounded = std::strtod(text.data(), nullptr);
  return std::isfinite(rounded) ? std::optional(rounded) : std::nullopt;
}

// A list for each number, which takes a third of the bytes that an object for each model would.
Json EncodeModels(const std::vector<ModelResult>& models) {
  Json columns = Json::object();
  for (const ModelColumn& column : kModelColumns) {
    Json& numbers = columns[column.key] = Json::array();
    for (const ModelResult& model : models) {
      numbers.push_back(FiniteOrNull(Shorten(model.*column.number)));
    }
  }
  return columns;
}

std::vector<ModelResult> DecodeModels(const Json& value,
                                      const std::string& path,
                                      std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  std::vector<ModelResult> models;
  for (const ModelColumn& column : kModelColumns) {
    const std::vector<const Json*> numbers = reader.List(column.key);
    if (column.number == kModelColumns.front().number && numbers.size() <= kModelsMax) {
      models.resize(numbers.size());
    }
    if (numbers.size() != models.size()) {
      reader.Fail(column.key,
                  std::to_string(numbers.size()) +
                      " numbers found, expected the same count in all lists, at most " +
                      std::to_string(kModelsMax) + " (one for each model)");
      return {};
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i]->is_number()) {
        models[i].*column.number = Shorten(numbers[i]->get<double>());
      } else if (!numbers[i]->is_null()) {
        reader.Fail(column.key, DescribeJson(*numbers[i]) + " found, expected a number or null");
      }
    }
  }
  return models;
}

}  // namespace

Json EncodeSampleCounts(const SampleCounts& samples) {
  return {{"consumed", samples.consumed},
          {"expected", samples.expected},
          {"lost", samples.lost},
          {"repeated", samples.repeated}};
}

SampleCounts DecodeSampleCounts(const Json& value,
                                const std::string& path,
                                std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  const SampleCounts samples{reader.RequireInt("consumed", 0),
                             reader.RequireInt("expected", 0),
                             reader.RequireInt("lost", 0),
                             reader.RequireInt("repeated", 0)};
  return samples;
}

Json EncodeTestResult(const TestResult& result) {
  Json json = {{"testLoss", FiniteOrNull(result.test_loss)},
               {"testAccuracy", FiniteOrNull(result.test_accuracy)}};
  if (!result.models.empty()) {
    json["models"] = EncodeModels(result.models);
  }
  return json;
}

TestResult DecodeTestResult(const Json& value,
                            const std::string& path,
                            std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  TestResult result{reader.Number("testLoss"), reader.Number("testAccuracy")};
  if (const Json* models = reader.Find("models")) {
    result.models = DecodeModels(*models, reader.PathOf("models"), errors);
  }
  return result;
}

Json EncodeDataEpochResult(const DataEpochResult& result) {
  const bool is_amount = std::isfinite(result.seconds) && result.seconds > 0;
  Json json = {{"dataEpoch", result.data_epoch},
               {"step", result.step},
               {"sampleCount", result.sample_count},
               {"loss", FiniteOrNull(result.loss)},
               {"accuracy", FiniteOrNull(result.accuracy)},
               {"seconds", is_amount ? result.seconds : 0}};
  if (result.timed_sample_count.has_value()) {
    json["timedSampleCount"] = *result.timed_sample_count;
  }
  if (result.loss_sample_count.has_value()) {
    json["lossSampleCount"] = *result.loss_sample_count;
  }
  return json;
}

DataEpochResult DecodeDataEpochResult(const Json& value,
                                      const std::string& path,
                                      std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  DataEpochResult result;
  result.data_epoch = reader.RequireInt("dataEpoch", 0);
  result.step = reader.RequireInt("step", 0);
  result.sample_count = reader.RequireInt("sampleCount", 0);
  result.loss = reader.Number("loss");
  result.accuracy = reader.Number("accuracy");
  reader.Require("seconds", "a number of at least 0");
  result.seconds = reader.Number("seconds", 0).value_or(0);
  result.timed_sample_count = reader.Int("timedSampleCount", 0);
  result.loss_sample_count = reader.Int("lossSampleCount", 0);
  return result;
}

}  // namespace lockstep
