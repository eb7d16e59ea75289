#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kube/request.h"

namespace lockstep::control {

// Every operator's lease carries this label, and which namespaces it serves: "*", or "a,b".
inline constexpr const char* kOperatorLabel = "lockstep.dev/operator";
inline constexpr const char* kServedAnnotation = "lockstep.dev/serves";

// The value of kServedAnnotation. Empty: all.
std::string DescribeServed(const std::set<std::string>& namespaces);

// One release of the operator: all its replicas share a lease.
struct OperatorScope {
  std::string lease_namespace;
  std::string lease_name;
  std::set<std::string> namespaces;  // whose jobs it serves; empty: all
};

// All leases of operators, in the whole cluster.
kube::Request ListOperatorLeases();

// Whether another release is at work on jobs of ours: its lease is held, was renewed not long ago,
// and is older than ours. Of two releases that start together one goes on.
// Errors: kAborted (another is; the message names its lease), kCorrupt (`leases` is no such list).
Status CheckNoOtherOperator(std::string_view leases, const OperatorScope& own, WallTime now);

}  // namespace lockstep::control
