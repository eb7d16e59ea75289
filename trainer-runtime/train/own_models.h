#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/training/training_result.h"
#include "common/contract/training/training_spec.h"
#include "trainer-runtime/strategy/rank_control.h"
#include "trainer-runtime/train/trainer.h"

namespace lockstep::runtime {

// A job whose ranks train a model each: what is a rank's own, and what all models come to.

// What a rank tells the others when its model is trained.
struct ModelReport {
  ModelResult result;
  SampleCounts samples;

  friend bool operator==(const ModelReport&, const ModelReport&) = default;
};

ModelReport ReportOf(Trainer* trainer);

// All reports, by rank: every rank gives its own. Errors: those of RankControl; kCorrupt.
Result<std::vector<ModelReport>> ExchangeReports(const ModelReport& mine,
                                                 RankControl* control,
                                                 Deadline deadline);

// What all models come to: means over them, which are absent where one model has no number, and
// sums of the samples.
struct ModelsTogether {
  TestResult result;  // the means of the test, and each model's own numbers
  std::optional<double> training_loss;
  SampleCounts samples;

  friend bool operator==(const ModelsTogether&, const ModelsTogether&) = default;
};

// Precondition (checked): at least one report.
ModelsTogether Combine(const std::vector<ModelReport>& by_rank);

}  // namespace lockstep::runtime
