#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/contract/training/training_spec.h"
#include "trainer-runtime/engine/engine.h"

// What every engine must satisfy, whatever computes inside it. For tests.
namespace lockstep::runtime {

using EngineFactory = std::function<Result<std::unique_ptr<Engine>>(const TrainingSpec&)>;

// Inputs uniform in [-1, 1) and labels that fit the spec's loss: class numbers, bits or values.
struct SampleData {
  std::vector<float> inputs;
  std::vector<float> labels;
  int64_t sample_count = 0;

  Batch All() const { return Slice(0, sample_count); }

  Batch Slice(int64_t begin, int64_t end) const;
};

// Two dense layers, the last of which has a width of 2. As a spec it is whole: it can be encoded.
TrainingSpec SmallSpec();

// `output_width` is the width of the model's last layer.
SampleData MakeSamples(const TrainingSpec& spec, int64_t output_width, int64_t sample_count);

// Gradients equal central differences of the loss, on a sample of each tensor's elements.
// `tolerance` is relative to the tensor's largest gradient.
void CheckGradientsAgainstDifferences(Engine& engine, const SampleData& data, double tolerance);

// The gradients of a batch are the sum of those of its parts, empty ones included, to 1e-5 of the
// largest: what lets ranks share a batch.
void CheckPartsAddUp(Engine& engine, const SampleData& data);

// Backward says of each gradient once that it is ready, from the last to the first and where it was
// asked to, at the beginnings of tensors and within them; what is ready then is final, and the
// engine leaves it alone (which is seen in the host's memory only).
void CheckTellsWhatIsReady(Engine& engine, const SampleData& data);

// An engine takes the memory that it is lent for its gradients, at any time and more than once, and
// trains in it as another of the same spec does in its own.
void CheckTakesLentMemory(const EngineFactory& make,
                          const TrainingSpec& spec,
                          const SampleData& data);

// An engine that computes in the host's memory takes the memory that it is lent for its state, at
// any time and more than once, and trains on in it as another of the same spec does in its own. Any
// other says that it cannot.
void CheckTakesLentState(const EngineFactory& make,
                         const TrainingSpec& spec,
                         const SampleData& data);

// In `precision` the gradients are not Float32's, and yet near them: the length of the difference
// is at most `tolerance` of theirs. A scale of the loss is gone from them.
void CheckNearFloat32(const EngineFactory& make,
                      TrainingSpec spec,
                      Precision precision,
                      const SampleData& data,
                      double tolerance);

// In Float16, and there alone, gradients that are too large at the scale of the loss are told.
void CheckOverflowIsTold(const EngineFactory& make, TrainingSpec spec, const SampleData& data);

// Two engines that compute differently take one step alike, dropout included: losses and gradients
// differ by `tolerance` of their size, gradients as a whole.
void CheckSameStep(Engine& found, Engine& expected, const SampleData& data, double tolerance);

// Two engines of one spec start equal and end bitwise equal after `steps` updates.
void CheckRepeatsBitwise(const EngineFactory& make,
                         const TrainingSpec& spec,
                         const SampleData& data,
                         int64_t steps);

// What the host has after it was brought over: the gradients, and all parameters and slots.
std::vector<float> GradientsOf(Engine& engine);
std::vector<float> ValuesOf(Engine& engine);

// All that it has to tell since it was last asked.
std::vector<std::string> NoticesOf(Engine& engine);

// The length of the difference is at most `tolerance` of what is expected.
void ExpectNear(const std::vector<float>& found,
                const std::vector<float>& expected,
                double tolerance);

// Mean loss after `steps` updates on the same batch.
double TrainOnOneBatch(Engine& engine, const SampleData& data, int64_t steps);

}  // namespace lockstep::runtime
