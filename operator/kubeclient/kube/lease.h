#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/prng.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::kube {

struct LeaseOptions {
  std::string namespace_name;
  std::string name = "lockstep-operator";
  std::string identity;  // unique to this process
  // How the identities of processes begin of which none runs beside another, as those of one pod,
  // whose container is started again when its process has died: what one of them holds is free as
  // soon as the next one runs. Empty: nobody knows of any.
  std::string succession{};
  // Of the object, for those who look for leases.
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::chrono::milliseconds lease_duration{15'000};
  std::chrono::milliseconds renew_deadline{10'000};
  std::chrono::milliseconds retry_period{2'000};
};

// Errors: kInvalidArgument unless lease > renew > retry * 1.2 and all names are set.
Status CheckLeaseOptions(const LeaseOptions& options);

enum class LeaseRole { kStandby, kLeader, kLost };  // kLost: led, and must stop acting at once

// Decides who leads, by one Lease object. A state machine without I/O or clock: the driver sends
// NextRequest when its time has come and hands over the result.
//
//   read --taken--> wait --> read ..
//        --free, run out, missing--> write --won--> leading: write, write, .. --lost--> nothing
//   nothing --Rejoin--> read ..
//
// Safety: leads only until `leads_until()`, which counts from before the renewal was sent and is
// `renew_deadline` long; another may take over only `lease_duration` after it saw that renewal,
// judged by its own monotonic clock and never by the time written in the lease. The difference is
// for clocks that run at unequal speed. Every mutating call of the process must be over before
// leads_until().
// A process of the same succession is known to be dead, and waits for nobody: what it had sent is
// refused by the versions that it had seen, or is what the next one finds done.
// Limit: a lease that somebody deletes protects nobody from a process that starts just then, nor
// one that is deleted twice from a process that was frozen meanwhile.
// Thread: one. Source: client-go's tools/leaderelection, for the meaning of the lease's fields.
class LeaseElection {
 public:
  // Precondition (checked): CheckLeaseOptions(options).ok().
  LeaseElection(LeaseOptions options, uint64_t seed);

  struct Next {
    TimePoint not_before{};
    Request request;
  };

  // What to send next, and when. Asked again before a result it means the same anew.
  Next NextRequest(TimePoint now, WallTime wall_now);

  // What the lease is to say from the next request on. Empty `value`: nothing under this name.
  void Annotate(const std::string& name, const std::string& value);

  // `sent` is the moment before the request left.
  void OnResult(const CallResult& result, TimePoint sent, TimePoint now);

  LeaseRole role(TimePoint now) const;

  // The process may act as leader strictly before this moment; the past while it does not lead.
  TimePoint leads_until() const { return leads_until_; }

  // Stands by again after kLost. Only when everything that was begun as leader has ended, and no
  // request is under way: what a later leadership allows must not be done on what an earlier one
  // had seen.
  void Rejoin();

  // The request that gives the lease up, so that another leads at once; null when it is not ours.
  // Only after every worker has stopped: from here on this process does not lead.
  std::optional<Request> Release(WallTime wall_now);

  // As last seen; empty: nobody.
  const std::string& holder() const { return record_.holder; }

 private:
  enum class Step { kRead, kCreate, kWrite };

  // What is written in the lease.
  struct Record {
    std::string holder;
    std::string resource_version;
    std::string acquire_time;
    std::chrono::seconds duration{};
    int64_t transitions = 0;
  };

  static Result<Record> ParseRecord(const Reply& reply);
  std::string Encode(const Record& record, WallTime renew_time) const;
  Record OwnRecord(WallTime wall_now) const;
  bool IsFree(TimePoint now) const;
  void OnRead(const CallResult& result, TimePoint now);
  void OnWritten(const CallResult& result, TimePoint sent, TimePoint now);
  void Observe(Record record, TimePoint now);
  void Lose();
  Duration StandbyPause();

  LeaseOptions options_;
  Prng prng_;
  Record record_;            // as last seen; without a version: there is none
  std::string led_version_;  // the record's, when only we have written it since we led
  TimePoint observed_at_{};  // when it was first seen as it is
  Step step_ = Step::kRead;
  TimePoint not_before_{};
  bool has_led_ = false;   // since it took part last
  bool has_lost_ = false;  // ever
  TimePoint leads_until_{};
};

}  // namespace lockstep::control::kube
