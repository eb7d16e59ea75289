#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kube/request.h"

namespace lockstep::control {

// Every operator's lease carries this label, and which namespaces it serves: "*", or "a,b".
inline constexpr const char* kOperatorLabel = "lockstep.dev/operator";
inline constexpr const char* kServedAnnotation = "lockstep.dev/serves";

// "true" on the lease of a release that has given way to another: it is not at work.
inline constexpr const char* kGivesWayAnnotation = "lockstep.dev/gives-way";

// The value of kServedAnnotation. Empty: all.
std::string DescribeServed(const std::set<std::string>& namespaces);

// One release of the operator: all its replicas share a lease.
struct OperatorScope {
  std::string lease_namespace;
  std::string lease_name;
  std::set<std::string> namespaces;  // whose jobs it serves; empty: all
};

// What the holder of a release's lease is to do about other releases.
enum class Precedence {
  kFirst,    // work: nobody else does on jobs of ours, or nobody may know
  kReturn,   // nobody else does, but our lease said still that we give way: look again when not
  kAwait,    // a younger release is still at work; it gives way when it sees us. Leaders go on.
  kGiveWay,  // an older one is at work
};

struct OthersFinding {
  Precedence precedence = Precedence::kFirst;
  std::string why;            // whose lease it is; empty: nobody's
  bool is_successor = false;  // kAwait: of an operator that this one replaces
};

// Questions for the API server: all leases of operators in the whole cluster, and that of the
// operator before leases were named after the release and labelled, in our own namespace.
std::vector<kube::Request> LookForOthers(const OperatorScope& own);

// Judges the answers to LookForOthers, asked while we hold our lease. Another release counts when
// its lease is held, was renewed not long ago, does not say that it gives way, and serves a
// namespace of ours; the older lease goes first.
// Safe, because everybody writes "I do not give way" before it looks, and works only after a look
// that found nobody: of two that did so, one has seen the other.
// Errors: kUnavailable (no answer), kCorrupt (no such list).
Result<OthersFinding> JudgeOthers(const std::vector<kube::CallResult>& answers,
                                  const OperatorScope& own,
                                  WallTime now);

}  // namespace lockstep::control
