#include "operator/reconcile/act/key_check.h"

#include <string>

#include "common/base/plural.h"
#include "operator/api/conditions.h"
#include "operator/reconcile/build/job_objects.h"

namespace lockstep::control {

void CheckKey(const GangView& view, DecisionBuilder* builder) {
  std::size_t count = 0;
  for (const Member& member : view.members) {
    count += builder->observed().refusing_pods.count(member.pod_name);
  }
  if (count > 0) {
    builder->Set({ConditionType::kRuntimeHeard,
                  false,
                  "KeyRefused",
                  Plural(static_cast<int64_t>(count), "pod") + (count == 1 ? " does" : " do") +
                      " not take the operator's key, which was made anew since: losses are noticed "
                      "late; delete the secret " +
                      KeySecretName(builder->job().metadata) + ", then suspend and resume the job"},
                 EventType::kWarning);
  } else if (FindCondition(builder->status(), ConditionType::kRuntimeHeard) != nullptr) {
    builder->Set({ConditionType::kRuntimeHeard, true, "KeyTaken", "pods take the operator's key"});
  }
}

}  // namespace lockstep::control
