#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/view/stored/queue_server.h"

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
  std::string why;  // whose lease it is; empty: nobody's
  // kAwait: nothing is wrong with that yet. It is of an operator that this one replaces, or of
  // which a moment tells whether it is at work.
  bool is_ready_meanwhile = false;
  std::vector<OtherRelease> releases{};  // the oldest first; at work or not
};

// Who is at work renews its lease every few seconds, so that the object changes. What the lease
// says of the time is by another's clock, and says nothing. Thread: one.
class LeaseSights {
 public:
  enum class Sign {
    kHeld,      // it has changed not long ago
    kUnproven,  // it is new to us: somebody may hold it
    kSilent,    // whoever held it has not been heard of for as long as it lasts
  };

  // The lease, which somebody holds as it says, was found with this version and duration.
  Sign See(const std::string& name, const std::string& version, Duration lasts, TimePoint now);

  // Nobody holds it, as it says.
  void Forget(const std::string& name) { rows_.erase(name); }

 private:
  struct Row {
    std::string version;
    TimePoint since{};  // with this version
    bool has_changed = false;
  };

  std::map<std::string, Row> rows_;  // few: one for each release of the cluster
};

// Questions for the API server: all leases of operators in the whole cluster, and that of the
// operator before leases were named after the release and labelled, in our own namespace.
std::vector<kube::Request> LookForOthers(const OperatorScope& own);

// Judges the answers to LookForOthers, asked while we hold our lease. Another release counts when
// its lease is held, changes from look to look, does not say that it gives way, and serves a
// namespace of ours; the older lease goes first. One that is seen for the first time is waited for
// until it changes, or has lasted.
// Safe, because everybody writes "I do not give way" before it looks, and works only after a look
// that found nobody: of two that did so, one has seen the other.
// Errors: kUnavailable (no answer), kCorrupt (no such list).
Result<OthersFinding> JudgeOthers(const std::vector<kube::CallResult>& answers,
                                  const OperatorScope& own,
                                  TimePoint now,
                                  LeaseSights* sights);

}  // namespace lockstep::control
