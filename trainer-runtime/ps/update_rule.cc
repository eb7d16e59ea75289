#include "trainer-runtime/ps/update_rule.h"

#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {

UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer) {
  return [optimizer](int64_t update_number,
                     std::span<const float> gradient,
                     std::vector<float>* parameters,
                     std::vector<float>* slots) {
    ApplyOptimizer(optimizer, update_number, {*parameters, gradient, *slots});
  };
}

}  // namespace lockstep::runtime
