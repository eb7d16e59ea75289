#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/fields/pod_label_names.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/item.h"

namespace lockstep::control {

// What an object that others look at says of the job that it was made for.
struct ObjectOrigin {
  std::string owner_uid;  // of its controller; empty: none
  std::string owner_job;  // the controller's name, where that is a TrainingJob; else empty
  std::string label_job;  // under the label that is looked for; may be anybody's word
  std::string revision;   // of what it was made of; empty: not made by us
  bool is_deleting = false;

  friend bool operator==(const ObjectOrigin&, const ObjectOrigin&) = default;
};

// Reads it of a whole object. `revision_key`: the annotation that holds the revision; `job_key`:
// the label that names the job. Errors: added to `errors`, where a field is of another type than
// Kubernetes writes.
ObjectOrigin ReadOrigin(ObjectReader& object,
                        const char* revision_key,
                        std::vector<Error>* errors,
                        const char* job_key = label::kJob);

// `object`, which was read of `raw`, in its place.
template <typename T>
kube::Item<T> ItemOf(kube::Item<kube::RawObject> raw, T object) {
  return {std::move(raw.key),
          std::move(raw.uid),
          std::move(raw.resource_version),
          std::make_shared<const T>(std::move(object))};
}

}  // namespace lockstep::control
