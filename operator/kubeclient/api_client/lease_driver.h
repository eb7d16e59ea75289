#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "operator/kubeclient/api_client/call_observer.h"
#include "operator/kubeclient/kube/lease.h"
#include "operator/kubeclient/transport/transport.h"

namespace lockstep::control {

struct LeaseDriverOptions {
  // All outlive the driver.
  Transport* transport = nullptr;    // required
  const Clock* clock = nullptr;      // required
  Logger* logger = nullptr;          // required
  CallObserver* observer = nullptr;  // null: nobody

  kube::LeaseOptions lease;  // must pass CheckLeaseOptions
  uint64_t seed = 0;

  // Called on the transport's thread with each new role; must not block. Null: nobody.
  // kLost means: stop acting now, then Rejoin. It comes by the clock, also when no answer ever
  // comes.
  std::function<void(kube::LeaseRole)> on_role;
};

// Keeps one kube::LeaseElection going on a connection of its own, from construction to destruction.
class LeaseDriver {
 public:
  explicit LeaseDriver(LeaseDriverOptions options);

  // No callback runs when this returns; the lease is not given up (see Release).
  // Thread: any but the transport's.
  ~LeaseDriver();

  LeaseDriver(const LeaseDriver&) = delete;
  LeaseDriver& operator=(const LeaseDriver&) = delete;

  // The process may act as leader strictly before this moment. Thread: any.
  TimePoint leads_until() const;

  kube::LeaseRole role() const;

  // Takes part again after kLost, once everything that was begun as leader has ended. Thread: any.
  void Rejoin();

  // Writes `value` under the annotation `name` with the next renewal, and with all after it. Empty:
  // the annotation is gone. Thread: any.
  void Annotate(const std::string& name, const std::string& value);

  // Who holds the lease, as last seen. Thread: any.
  std::string holder() const;

  // Why the API server does not let us take part; empty: it does, as far as is known. Thread: any.
  std::string refusal() const;

  // Ends the election and, if we lead, gives the lease up, so that another leads at once. Only
  // after every worker has stopped. Returns when that is done or the deadline has passed.
  // Thread: any but the transport's.
  void Release(Deadline deadline);

 private:
  class Core;

  std::shared_ptr<Core> core_;  // shared with the transport's callbacks
  Transport* transport_;
};

}  // namespace lockstep::control
