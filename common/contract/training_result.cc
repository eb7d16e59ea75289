#include "common/contract/training_result.h"

#include <cmath>

namespace lockstep {
namespace {

// JSON has no infinities and no NaN.
Json FiniteOrNull(const std::optional<double>& number) {
  return number.has_value() && std::isfinite(*number) ? Json(*number) : Json(nullptr);
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
  return {{"testLoss", FiniteOrNull(result.test_loss)},
          {"testAccuracy", FiniteOrNull(result.test_accuracy)}};
}

TestResult DecodeTestResult(const Json& value,
                            const std::string& path,
                            std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  const TestResult result{reader.Number("testLoss"), reader.Number("testAccuracy")};
  return result;
}

Json EncodeDataEpochResult(const DataEpochResult& result) {
  const bool is_amount = std::isfinite(result.seconds) && result.seconds > 0;
  return {{"dataEpoch", result.data_epoch},
          {"step", result.step},
          {"sampleCount", result.sample_count},
          {"loss", FiniteOrNull(result.loss)},
          {"accuracy", FiniteOrNull(result.accuracy)},
          {"seconds", is_amount ? result.seconds : 0}};
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
  return result;
}

}  // namespace lockstep
