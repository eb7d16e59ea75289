#include "trainer-runtime/train/own_models.h"

#include <utility>

#include "common/base/check.h"
#include "common/json/json.h"

namespace lockstep::runtime {
namespace {

Json NumberOrNull(const std::optional<double>& number) {
  return number.has_value() ? Json(*number) : Json(nullptr);
}

// JSON writes numbers that are not finite as null, which is what they are to people.
std::string Encode(const ModelReport& report) {
  return DumpJson({{"trainingLoss", NumberOrNull(report.result.training_loss)},
                   {"testLoss", NumberOrNull(report.result.test_loss)},
                   {"testAccuracy", NumberOrNull(report.result.test_accuracy)},
                   {"samples", EncodeSampleCounts(report.samples)}});
}

Result<ModelReport> Decode(const std::string& text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  std::vector<Error> errors;
  ObjectReader reader(json, "report", &errors);
  ModelReport report;
  report.result = {
      reader.Number("trainingLoss"), reader.Number("testLoss"), reader.Number("testAccuracy")};
  if (const Json* samples = reader.Require("samples", "the counts of samples")) {
    report.samples = DecodeSampleCounts(*samples, "report.samples", &errors);
  }
  return errors.empty() ? Result<ModelReport>(report)
                        : Error(ErrorCode::kCorrupt, errors.front().ToString());
}

std::optional<double> Mean(const std::vector<ModelReport>& by_rank,
                           std::optional<double> ModelResult::*number) {
  double sum = 0;
  for (const ModelReport& report : by_rank) {
    if (!(report.result.*number).has_value()) {
      return std::nullopt;
    }
    sum += *(report.result.*number);
  }
  return sum / static_cast<double>(by_rank.size());
}

}  // namespace

ModelReport ReportOf(Trainer* trainer) {
  const SampleTotals totals = trainer->SampleTotalsNow();
  ModelReport report;
  report.samples = {totals.consumed, totals.expected, totals.lost, totals.repeated};
  report.result.training_loss = trainer->training_loss();
  if (const std::optional<EvaluationResult>& tested = trainer->test_result()) {
    report.result.test_loss = tested->loss;
    report.result.test_accuracy = tested->accuracy;
  }
  return report;
}

Result<std::vector<ModelReport>> ExchangeReports(const ModelReport& mine,
                                                 RankControl* control,
                                                 Deadline deadline) {
  const std::string text = Encode(mine);
  std::vector<ModelReport> by_rank;
  for (int rank = 0; rank < control->world_size(); ++rank) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string told, control->ShareBytes(text, rank, deadline));
    LOCKSTEP_ASSIGN_OR_RETURN(ModelReport report, Decode(told));
    by_rank.push_back(report);
  }
  return by_rank;
}

ModelsTogether Combine(const std::vector<ModelReport>& by_rank) {
  LOCKSTEP_CHECK(!by_rank.empty(), "there is no model report");
  ModelsTogether all;
  for (const ModelReport& report : by_rank) {
    all.result.models.push_back(report.result);
    all.samples.consumed += report.samples.consumed;
    all.samples.expected += report.samples.expected;
    all.samples.lost += report.samples.lost;
    all.samples.repeated += report.samples.repeated;
  }
  all.result.test_loss = Mean(by_rank, &ModelResult::test_loss);
  all.result.test_accuracy = Mean(by_rank, &ModelResult::test_accuracy);
  all.training_loss = Mean(by_rank, &ModelResult::training_loss);
  return all;
}

}  // namespace lockstep::runtime
