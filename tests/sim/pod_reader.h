#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/json/json.h"

// What the simulation and its checks read of pods and nodes: straight from the documents, never
// through the operator's decoders. Both would err alike, and no check would see it.
namespace lockstep::control::sim {

// By resource, in thousandths.
using Amounts = std::map<std::string, int64_t>;

// "64000m", "256Gi", "1.5" in thousandths. Precondition (checked): a quantity of that kind.
int64_t ReadThousandths(std::string_view text);

// What a pod with this spec takes of its node, as the scheduler counts it: its containers and
// sidecars, or more where an init container needs more beside the sidecars before it; and its
// overhead. Requests default to limits.
// Source: Kubernetes, "Resource sharing within containers", "Pod Overhead".
Amounts RequestsOfSpec(const Json& pod_spec);

Amounts RequestsOfPod(const Json& pod);
Amounts AllocatableOf(const Json& node);

int64_t AmountOf(const Amounts& amounts, const std::string& resource);
void AddTo(Amounts* sum, const Amounts& more);

// How many that ask for so much fit what is free.
int64_t CountThatFits(const Amounts& free, const Amounts& request);

// The first resource of which `used` and `more` together are more than `allocatable`; empty: none.
std::string Shortage(const Amounts& allocatable, const Amounts& used, const Amounts& more);

// The uid of the TrainingJob that the object belongs to; empty: to none, whatever its labels say.
std::string JobUidOf(const Json& object);

// The node that the pod is bound to, else the only one its affinity lets it go to; empty: any.
std::string NodeWantedBy(const Json& pod);

bool HasPodEnded(const Json& pod);

// The label's value; empty when absent.
std::string LabelOf(const Json& object, std::string_view label);

bool IsNodeReady(const Json& node);

}  // namespace lockstep::control::sim
