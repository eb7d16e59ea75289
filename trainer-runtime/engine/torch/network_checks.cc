#include "trainer-runtime/engine/torch/network_checks.h"

#include <gtest/gtest.h>

#include "trainer-runtime/engine/torch/network_cases.h"

namespace lockstep::runtime {

void CheckAllNetworks(const EngineFactory& make) {
  for (const NetworkCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    const TrainingSpec spec = SpecOf(c);
    const SampleData data = MakeSamples(spec, c.output_width, 10);
    const auto engine = make(spec).value();
    CheckTellsWhatIsReady(*engine, data);
    CheckPartsAddUp(*engine, data);
    CheckTakesLentMemory(make, spec, data);
    CheckTakesLentState(make, spec, data);
    CheckRepeatsBitwise(make, spec, data, 3);
  }
}

// A value next to zero may be on the other side of a relu, and a pool may take its neighbour: hence
// some units more than the last places (2^-8, 2^-11) of each product. Parts of a batch add up, as
// per-sample numbers are rounded and sums of them are not.
void CheckAllNetworksInLowPrecision(const EngineFactory& make) {
  for (const NetworkCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    TrainingSpec spec = SpecOf(c);
    const SampleData data = MakeSamples(spec, c.output_width, 10);
    CheckNearFloat32(make, spec, Precision::kBFloat16, data, 8e-2);
    CheckNearFloat32(make, spec, Precision::kFloat16, data, 1e-2);
    CheckOverflowIsTold(make, spec, data);
    for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
      spec.precision = precision;
      CheckPartsAddUp(*make(spec).value(), data);
    }
  }
}

}  // namespace lockstep::runtime
