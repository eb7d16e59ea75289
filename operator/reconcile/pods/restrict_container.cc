#include "operator/reconcile/pods/restrict_container.h"

#include <algorithm>

#include "operator/api/fields/json_edit.h"

namespace lockstep::control {
namespace {

// What holds for the container: its own word, else its pod's.
const Json* Effective(const Json& pod_security, const Json& security, const char* key) {
  const Json* const own = FindField(security, key);
  return own != nullptr ? own : FindField(pod_security, key);
}

bool Is(const Json* value, const Json& expected) {
  return value != nullptr && *value == expected;
}

bool IsMeantToBePowerful(const Json& pod_security, const Json& security) {
  return Is(FindField(security, "privileged"), true) ||
         Is(Effective(pod_security, security, "runAsUser"), 0) ||
         Is(Effective(pod_security, security, "runAsNonRoot"), false);
}

// The API server refuses allowPrivilegeEscalation: false beside this capability.
bool AddsSysAdmin(const Json& security) {
  const Json* const capabilities = FindField(security, "capabilities");
  const Json* const added = capabilities == nullptr ? nullptr : FindField(*capabilities, "add");
  return added != nullptr && added->is_array() &&
         std::any_of(added->begin(), added->end(), [](const Json& one) {
           return one == "SYS_ADMIN" || one == "CAP_SYS_ADMIN";
         });
}

}  // namespace

void RestrictContainer(const Json& pod_security, Json* container) {
  Json* const security = ObjectAt(container, "securityContext");
  if (security == nullptr || IsMeantToBePowerful(pod_security, *security)) {
    return;
  }
  if (Effective(pod_security, *security, "runAsNonRoot") == nullptr) {
    (*security)["runAsNonRoot"] = true;
  }
  if (Effective(pod_security, *security, "seccompProfile") == nullptr) {
    (*security)["seccompProfile"] = {{"type", "RuntimeDefault"}};
  }
  if (FindField(*security, "allowPrivilegeEscalation") == nullptr && !AddsSysAdmin(*security)) {
    (*security)["allowPrivilegeEscalation"] = false;
  }
  if (FindField(*security, "capabilities") == nullptr) {
    (*security)["capabilities"] = {{"drop", Json::array({"ALL"})}};
  }
}

}  // namespace lockstep::control
