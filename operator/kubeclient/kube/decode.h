#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control::kube {

// Projections of foreign objects: only the fields that are used, unknown ones ignored, unknown
// enum values accepted. Source: simdjson On-Demand.
// Errors: kCorrupt (not JSON, no metadata.name, a field of a wrong type: with its path).

// Resources are those the scheduler must subtract: the larger of the init containers' maximum and
// the sum of all containers and sidecars, plus overhead, where a container that is being resized in
// place counts with the larger of what it asks for and what it was given; they stand under
// spec.container. Of labels
// and annotations only those of lockstep.dev are kept. The node is where the pod is bound, else the
// one node that its required affinity names. The status is that of the first container, or of an
// init container that is in the way.
Result<Item<Pod>> DecodePod(std::string_view json);

Result<Item<Node>> DecodeNode(std::string_view json);
Result<Item<Service>> DecodeService(std::string_view json);

// Our own kind passes through as it is, for operator/api to read, but for the managed fields: they
// name every field once more, and nobody here asks who wrote it.
struct RawObject {
  std::string json;
};

Result<Item<RawObject>> DecodeRaw(std::string_view json);

// What of an object its users do not choose, as JSON: apiVersion, kind, of the metadata names, uid,
// generation, times and finalizers, and the status. Of one that is too deep or too wide to be read,
// which that much is not.
Result<std::string> WithoutUsersFields(std::string_view json);

}  // namespace lockstep::control::kube
