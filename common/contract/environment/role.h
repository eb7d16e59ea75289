#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace lockstep {

// What a pod is to its job: TensorFlow's task types. Chief and workers are ranks, chief first; ps
// and evaluator are not.
enum class Role { kChief, kWorker, kPs, kEvaluator };

// All of them, in the order in which they are listed everywhere.
inline constexpr std::array<Role, 4> kRoles = {
    Role::kChief, Role::kWorker, Role::kPs, Role::kEvaluator};

// "chief", "worker", "ps", "evaluator": in manifests, host names and TF_CONFIG alike.
std::string_view RoleName(Role role);

// The role of that name; nullopt for any other text, case counts.
std::optional<Role> ParseRole(std::string_view name);

// Whether the role's processes take part in collectives.
inline bool IsRank(Role role) {
  return role == Role::kChief || role == Role::kWorker;
}

}  // namespace lockstep
