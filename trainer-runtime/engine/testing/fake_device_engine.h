#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "trainer-runtime/engine/engine.h"

namespace lockstep::runtime {

// Where a double of a GPU has its gradients, and the sums of its steps.
class FakeDeviceGradients {
 public:
  virtual ~FakeDeviceGradients() = default;

  virtual std::string DeviceName() const = 0;  // "a GPU", "GPU 1"

  // As whoever uses the engine sees them.
  virtual EngineBuffer Buffer() const = 0;

  // Puts `made` at `offset`, now or later.
  virtual void Write(std::size_t offset, std::span<const float> made) = 0;

  // The event of that number, recorded behind what was put there so far; what GradientsReady tells.
  virtual void* Mark(std::size_t number) = 0;

  // All of them, once all that was put there is.
  virtual std::span<float> Await() = 0;

  // Engine::Sums, where WriteSums puts what a step that is not awaited has made, now or later.
  virtual DeviceSums Sums() const = 0;
  virtual void WriteSums(const StepResult& made) = 0;

  // Engine::Measure and Engine::TakeStep.
  virtual void Measure() = 0;
  virtual StepResult TakeStep() = 0;
};

// When an engine tells of the gradients that are ready.
enum class FakeTelling {
  kAsTheyAreMade,
  kAtOnce  // when the device has been given all of the step, as from a graph
};

// The root of the sum of their squares.
double LengthOf(std::span<const float> gradients);

// `inner`, which computes in the host's memory, as though it computed on a GPU: what the host has
// of it is an image apart, of NaN wherever the engine has come to other values since it was
// brought over. Whoever forgets to bring something over trains on NaN, or changes nothing. An
// update takes what is in `gradients`; null: at an address that nobody can read.
std::unique_ptr<Engine> MakeFakeDeviceEngine(
    std::unique_ptr<Engine> inner,
    std::unique_ptr<FakeDeviceGradients> gradients = nullptr,
    FakeTelling telling = FakeTelling::kAsTheyAreMade);

}  // namespace lockstep::runtime
