#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/prng.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kube/request.h"

namespace lockstep::control::kube {

struct LeaseOptions {
  std::string namespace_name;
  std::string name = "lockstep-operator";
  std::string identity;  // unique to this process
  std::chrono::milliseconds lease_duration{15'000};
  std::chrono::milliseconds renew_deadline{10'000};
  std::chrono::milliseconds retry_period{2'000};
};

// Errors: kInvalidArgument unless lease > renew > retry * 1.2 and all names are set.
Status CheckLeaseOptions(const LeaseOptions& options);

enum class LeaseRole { kStandby, kLeader, kLost };  // kLost: was leader, must stop at once

// Decides who leads, by one Lease object. A state machine without I/O or clock: the driver sends
// NextRequest when its time has come and hands over the result.
//
// Safety: leads only until `leads_until()`, which counts from before the renewal was sent; whether
// another's lease has run out is judged by the local monotonic time since the record last changed,
// never by the time written in it. Every mutating call of the process must be over before
// leads_until().
// Thread: one.
class LeaseElection {
 public:
  LeaseElection(LeaseOptions options, uint64_t seed);

  struct Next {
    TimePoint not_before{};
    Request request;
  };

  Next NextRequest(TimePoint now, WallTime wall_now);

  // `sent` is the moment before the request left.
  void OnResult(const CallResult& result, TimePoint sent, TimePoint now);

  LeaseRole role(TimePoint now) const;

  // The process may act as leader strictly before this moment; the past while it does not lead.
  TimePoint leads_until() const;

  // The request that gives the lease up, so that another leads at once; null when not leading.
  // Only after every worker has stopped.
  std::optional<Request> Release(WallTime wall_now);

  const std::string& holder() const;  // as last seen; empty: nobody
};

}  // namespace lockstep::control::kube
