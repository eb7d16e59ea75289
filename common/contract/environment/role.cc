#include "common/contract/environment/role.h"

#include "common/base/check.h"

namespace lockstep {

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kChief:
      return "chief";
    case Role::kWorker:
      return "worker";
    case Role::kPs:
      return "ps";
    case Role::kEvaluator:
      return "evaluator";
  }
  LOCKSTEP_CHECK(false, "role out of range");
}

std::optional<Role> ParseRole(std::string_view name) {
  for (const Role role : kRoles) {
    if (RoleName(role) == name) {
      return role;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
