#include "operator/reconcile/lifecycle/unplanned.h"

#include <algorithm>
#include <optional>
#include <string>

#include "operator/api/status/conditions.h"
#include "operator/reconcile/gang/queue.h"

namespace lockstep::control {
namespace {

const Json* FieldOf(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

bool HasAny(const Json* list, const char* name) {
  return list != nullptr && list->is_array() &&
         std::any_of(list->begin(), list->end(), [&](const Json& one) {
           return FieldOf(one, name) != nullptr;
         });
}

bool IsPresent(const Json* value) {
  return value != nullptr && !value->is_null() && !value->empty();
}

void Add(const std::string& what, std::string* text) {
  *text += (text->empty() ? "" : "; ") + what;
}

std::string HowItRunsOn(const std::optional<GrantedPriority>& granted) {
  return granted.has_value() ? "keeps priority " + std::to_string(granted->value)
                             : "cannot be evicted, because its priority is not known";
}

void AddOfTemplate(const std::string& path, const Json& spec, std::string* text) {
  const Json* const volumes = FieldOf(spec, "volumes");
  if (HasAny(volumes, "persistentVolumeClaim") || HasAny(volumes, "ephemeral")) {
    Add(path + ".volumes: Lockstep does not know on which nodes the volume of a claim can be used",
        text);
  }
  if (IsPresent(FieldOf(spec, "resourceClaims"))) {
    Add(path + ".resourceClaims: Lockstep does not count the devices of claims", text);
  }
}

// What the manifest says about placement, is allowed, and no plan heeds, as one sentence that names
// each field; empty when there is nothing. So it is with a priority class that was deleted while
// the gang has its places; `missing_class` says which, or is empty. Such things are not defeated:
// the cluster's scheduler or the kubelet still keeps them, and the gang is rolled back where they
// forbid the planned node.
std::string DescribeUnplanned(const TrainingJobSpec& spec,
                              const TrainingJobStatus& status,
                              const std::string& missing_class) {
  std::string text;
  if (!status.placement.empty() && !HasEnded(status) && !missing_class.empty()) {
    Add(missing_class + " any more: the gang " + HowItRunsOn(status.origin.priority) +
            ", and the next gang waits until the class exists",
        &text);
  }
  const std::string priority_class = PriorityClassOf(spec);
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    const std::string path = "spec.roles[" + std::to_string(i) + "].template.spec";
    if (const Json* const pod = FieldOf(*spec.roles[i].pod.raw, "spec")) {
      AddOfTemplate(path, *pod, &text);
    }
    const std::string own = PriorityClassOfTemplate(spec.roles[i]);
    if (!own.empty() && own != priority_class) {
      Add(path + ".priorityClassName: the scheduler uses the priority class of the whole gang, " +
              priority_class +
              (spec.scheduling.binding == PodBinding::kNative
                   ? ", and so do its pods, because all pods of a PodGroup have one priority"
                   : ""),
          &text);
    }
  }
  return text;
}

}  // namespace

void NoteUnplanned(bool is_edited, DecisionBuilder* builder) {
  const std::string unplanned =
      builder->observed().is_one_machine
          ? ""
          : DescribeUnplanned(
                builder->spec(), builder->status(), builder->observed().missing_class);
  const ConditionChange planned = {ConditionType::kFullyPlanned,
                                   true,
                                   "FieldsPlanned",
                                   "when it places the gang, the scheduler uses all fields of the "
                                   "manifest about nodes and priority"};
  if (!unplanned.empty()) {
    builder->Set({ConditionType::kFullyPlanned, false, "FieldsNotPlanned", unplanned},
                 EventType::kWarning);
  } else if (FindCondition(builder->status(), ConditionType::kFullyPlanned) == nullptr) {
    return;
  } else if (is_edited) {
    builder->Set(planned);
  } else {
    builder->SetQuietly(planned);
  }
}

}  // namespace lockstep::control
