#include "operator/api/status/job_result.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "operator/api/fields/fields.h"

namespace lockstep::control {

Json EncodeResult(const TestResult& result) {
  Json value = Json::object();
  SetNumber(&value, "testLoss", result.test_loss);
  SetNumber(&value, "testAccuracy", result.test_accuracy);
  for (std::size_t rank = 0; rank < result.models.size(); ++rank) {
    const ModelResult& model = result.models[rank];
    Json entry = {{"rank", rank}};
    SetNumber(&entry, "trainingLoss", model.training_loss);
    SetNumber(&entry, "testLoss", model.test_loss);
    SetNumber(&entry, "testAccuracy", model.test_accuracy);
    value["models"].push_back(std::move(entry));
  }
  return value;
}

TestResult DecodeResult(const Json& value, const std::string& path, std::vector<Error>* errors) {
  ObjectReader reader(value, path, errors);
  TestResult result{reader.Number("testLoss"), reader.Number("testAccuracy")};
  const std::vector<const Json*> models = reader.List("models");
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    ObjectReader model(*models[rank], reader.PathOf("models", rank), errors);
    result.models.push_back(
        {model.Number("trainingLoss"), model.Number("testLoss"), model.Number("testAccuracy")});
  }
  return result;
}

}  // namespace lockstep::control
