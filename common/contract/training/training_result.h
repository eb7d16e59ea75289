#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"

namespace lockstep {

// What training came to: in the status document while the process lives, in the termination message
// after it.

// How often samples were used in training; lost and repeated are counted from the seen-counters.
struct SampleCounts {
  int64_t consumed = 0;
  int64_t expected = 0;
  int64_t lost = 0;
  int64_t repeated = 0;

  friend bool operator==(const SampleCounts&, const SampleCounts&) = default;
};

// What one model of several came to. Losses are absent when not finite numbers.
struct ModelResult {
  std::optional<double> training_loss;  // mean over its last data epoch
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;

  friend bool operator==(const ModelResult&, const ModelResult&) = default;
};

struct TestResult {
  std::optional<double> test_loss;  // absent when it is not a finite number
  std::optional<double> test_accuracy;
  // By rank, where each has trained a model of its own; then the above are the means over them.
  // At most kModelsMax.
  std::vector<ModelResult> models = {};

  friend bool operator==(const TestResult&, const TestResult&) = default;
};

// One pass over the training samples, to its end or to that of the training.
struct DataEpochResult {
  int64_t data_epoch = 0;          // counted from 0
  int64_t step = 0;                // its last one
  int64_t sample_count = 0;        // of it that were used
  std::optional<double> loss;      // mean; absent when it is not a finite number
  std::optional<double> accuracy;  // while training; absent where there is none
  double seconds = 0;
  // How many of these, the last ones, `seconds` is the time of: a process that came in between
  // knows nothing of those before. Absent: all.
  std::optional<int64_t> timed_sample_count = {};
  // How many of these loss and accuracy are over: a step that Float16 has skipped used its samples,
  // and had no finite loss. Absent: all.
  std::optional<int64_t> loss_sample_count = {};

  friend bool operator==(const DataEpochResult&, const DataEpochResult&) = default;
};

// Objects of both documents, and back. Unknown fields are ignored, as in the documents; problems
// go to `errors`, with their path.
Json EncodeSampleCounts(const SampleCounts& samples);
SampleCounts DecodeSampleCounts(const Json& value,
                                const std::string& path,
                                std::vector<Error>* errors);
// Of several models six digits are written: last words hold those of kModelsMax.
Json EncodeTestResult(const TestResult& result);
TestResult DecodeTestResult(const Json& value, const std::string& path, std::vector<Error>* errors);
Json EncodeDataEpochResult(const DataEpochResult& result);
DataEpochResult DecodeDataEpochResult(const Json& value,
                                      const std::string& path,
                                      std::vector<Error>* errors);

}  // namespace lockstep
