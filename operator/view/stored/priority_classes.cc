#include "operator/view/stored/priority_classes.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/json/json.h"
#include "operator/api/fields/fields.h"
#include "operator/kubeclient/kube/decode.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kPreemptibleLabel = "lockstep.dev/preemptible";

PriorityTerms TermsOf(const PriorityClass& one) {
  return {one.value, one.may_preempt, one.is_preemptible, ""};
}

// The class that counts for who names `name`; null: there is none.
const PriorityClass* FindClass(const std::map<std::string, PriorityClass>& classes,
                               const std::string& name) {
  if (!name.empty()) {
    const auto found = classes.find(name);
    return found == classes.end() ? nullptr : &found->second;
  }
  const PriorityClass* least = nullptr;
  for (const auto& [known, one] : classes) {
    if (one.is_default && (least == nullptr || one.value < least->value)) {
      least = &one;
    }
  }
  return least;
}

}  // namespace

Result<kube::Item<PriorityClass>> DecodePriorityClass(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(raw.object->json));
  std::vector<Error> errors;
  PriorityClass read;
  ObjectReader reader(document, "", &errors);
  read.value = reader.Int("value").value_or(0);
  read.is_default = reader.Bool("globalDefault").value_or(false);
  read.may_preempt = reader.String("preemptionPolicy").value_or("") != "Never";
  if (const Json* metadata = reader.Find("metadata")) {
    ObjectReader of_metadata(*metadata, "metadata", &errors);
    if (const Json* labels = of_metadata.Find("labels")) {
      ObjectReader of_labels(*labels, "metadata.labels", &errors);
      read.is_preemptible = of_labels.String(kPreemptibleLabel).value_or("") != "false";
    }
  }
  if (!errors.empty()) {
    return errors.front();
  }
  return kube::Item<PriorityClass>{std::move(raw.key),
                                   std::move(raw.uid),
                                   std::move(raw.resource_version),
                                   std::make_shared<const PriorityClass>(read)};
}

PriorityTerms TermsOfClass(const std::map<std::string, PriorityClass>& classes,
                           const std::string& name) {
  const PriorityClass* const found = FindClass(classes, name);
  if (found != nullptr) {
    return TermsOf(*found);
  }
  return name.empty()
             ? PriorityTerms()
             : PriorityTerms{0, false, false, "priority class " + name + " does not exist"};
}

PriorityTerms TermsOfPlaced(const std::map<std::string, PriorityClass>& classes,
                            const std::string& name,
                            const std::optional<GrantedPriority>& granted) {
  PriorityTerms terms = TermsOfClass(classes, name);
  if (granted.has_value()) {
    terms.priority = granted->value;
    terms.is_preemptible =
        FindClass(classes, name) != nullptr ? terms.is_preemptible : granted->is_preemptible;
  }
  return terms;
}

}  // namespace lockstep::control
