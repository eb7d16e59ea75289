#pragma once

#include <chrono>
#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::control {

// Keeps pods that do not tolerate it off a node, or discourages them.
struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute

  friend auto operator<=>(const Taint&, const Taint&) = default;
};

// Lets a pod run on nodes with such a taint, as in Kubernetes.
struct Toleration {
  std::string key;                                // empty, with `is_exists`: every key
  bool is_exists = false;                         // operator: Exists
  std::string value;                              // compared unless `is_exists`
  std::string effect;                             // empty: every effect
  std::optional<std::chrono::seconds> seconds{};  // of NoExecute: leave after so long; null: stay

  friend bool operator==(const Toleration&, const Toleration&) = default;
};

bool Tolerates(const Toleration& toleration, const Taint& taint);

// The first taint that none of the tolerations is for; null when there is none.
const Taint* UntoleratedTaint(const std::vector<Taint>& taints,
                              const std::vector<Toleration>& tolerations);

}  // namespace lockstep::control
