#include "operator/resources/toleration.h"

#include <algorithm>

namespace lockstep::control {

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  return (toleration.effect.empty() || toleration.effect == taint.effect) &&
         (toleration.key.empty() ? toleration.is_exists : toleration.key == taint.key) &&
         (toleration.is_exists || toleration.value == taint.value);
}

const Taint* UntoleratedTaint(const std::vector<Taint>& taints,
                              const std::vector<Toleration>& tolerations) {
  const auto found = std::find_if(taints.begin(), taints.end(), [&](const Taint& taint) {
    return std::none_of(tolerations.begin(), tolerations.end(), [&](const Toleration& toleration) {
      return Tolerates(toleration, taint);
    });
  });
  return found == taints.end() ? nullptr : &*found;
}

}  // namespace lockstep::control
